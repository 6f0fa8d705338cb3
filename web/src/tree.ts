// A conversation with branches: editing a question or answering it again makes a sibling, and nothing is lost.
import type { Call, End, Message } from './api.js';

export interface Node {
  message: Message;
  parent: Node | null;
  children: Node[];
  chosen: number;  // of children
  end?: End;       // of an answer
  uncached?: number;
  error?: string;
}

export class Tree {
  readonly root: Node = { message: { role: 'system', content: '' }, parent: null, children: [], chosen: 0 };

  // From the first message to the last one of the chosen branch; without the system prompt.
  path(): Node[] {
    const nodes: Node[] = [];
    for (let node = this.root.children[this.root.chosen]; node; node = node.children[node.chosen]) nodes.push(node);
    return nodes;
  }
  last(): Node { return this.path().at(-1) ?? this.root; }

  add(parent: Node, message: Message): Node {
    const node: Node = { message, parent, children: [], chosen: 0 };
    parent.chosen = parent.children.push(node) - 1;
    return node;
  }
  choose(node: Node, step: number): void {
    const siblings = node.parent!.children;
    node.parent!.chosen = (siblings.indexOf(node) + step + siblings.length) % siblings.length;
  }
  remove(node: Node): void {
    const parent = node.parent!;
    parent.children.splice(parent.children.indexOf(node), 1);
    parent.chosen = Math.max(0, parent.children.length - 1);
  }

  // What stands up to and with `node`, as one text. A word that somebody typed behind a word begins a new one.
  text(node: Node): string {
    let text = '';
    for (const m of this.messages(node, ''))
      text += (m.role === 'user' && /\w$/.test(text) && /^\w/.test(m.content) ? ' ' : '') + m.content;
    return text;
  }

  // What is sent to have `node` answered.
  messages(node: Node, system: string): Message[] {
    const messages: Message[] = [];
    for (let n: Node | null = node; n && n !== this.root; n = n.parent) messages.unshift(n.message);
    return system.trim() ? [{ role: 'system', content: system }, ...messages] : messages;
  }
}

export function addCalls(message: Message, calls: { index: number; id: string; name: string; arguments: string }[]): void {
  for (const c of calls) {
    const all: Call[] = (message.tool_calls ??= []);
    const call = (all[c.index] ??= { id: c.id, type: 'function', function: { name: '', arguments: '' } });
    call.function.name += c.name;
    call.function.arguments += c.arguments;
  }
}
