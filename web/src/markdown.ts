// Markdown of answers to elements. What a model writes is not trusted: only the tags below come through, and nothing that
// would ask another server for anything.
import DOMPurify from 'dompurify';
import { marked } from 'marked';

import { h } from './dom.js';

const tags = ['a', 'b', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i', 'li', 'ol', 'p',
              'pre', 's', 'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul'];

export function render(markdown: string, into: HTMLElement): void {
  const html = marked.parse(markdown, { async: false, gfm: true, breaks: true });
  into.innerHTML = DOMPurify.sanitize(html, { ALLOWED_TAGS: tags, ALLOWED_ATTR: ['href', 'start', 'align'], ALLOWED_URI_REGEXP: /^(https?:|mailto:|#)/i });
  for (const link of into.querySelectorAll('a')) {
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
  }
  for (const block of into.querySelectorAll('pre')) {
    const text = block.textContent ?? '';
    const copy = h('button', { type: 'button', className: 'copy small', textContent: 'copy' });
    copy.onclick = async () => {
      await navigator.clipboard.writeText(text);
      copy.textContent = 'copied';
    };
    block.append(copy);
  }
}
