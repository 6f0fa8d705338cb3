// Starts `kvasir serve` on a free port and stops it; what it logs is kept for failures.
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [kvasir, model, scratch] = process.argv.slice(2);

// ChatML with tools as Hermes models have them, so that chats and tools work with a model that has no template.
const chatml = `{% if tools %}<|im_start|>system
Tools: <tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools>
Call one with <tool_call>{"name": "", "arguments": {}}</tool_call><|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.content %}{{ m.content }}{% endif %}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`;

export class Server {
  static async start(...options) {
    const template = join(scratch, 'chatml.jinja');
    writeFileSync(template, chatml);
    const server = new Server();
    server.log = '';
    server.process = spawn(
      kvasir,
      ['serve', '-m', model, '--port', '0', '--ctx', '2048', '-t', '2', '--chat-template', template, ...options],
      { stdio: ['ignore', 'ignore', 'pipe'] },
    );
    server.ended = new Promise((resolve) => server.process.on('exit', (code, signal) => resolve({ code, signal })));
    server.url = await new Promise((resolve, reject) => {
      server.process.on('error', reject);
      server.ended.then(() => reject(new Error('the server ended:\n' + server.log)));
      server.process.stderr.on('data', (bytes) => {
        server.log += bytes;
        const found = server.log.match(/^listening address=(\S+)/m);
        if (found) resolve(found[1]);
      });
    });
    return server;
  }

  // Ends it as an operator would; the exit status has to be 0.
  async stop() {
    this.process.kill('SIGTERM');
    return await this.ended;
  }

  async stats() {
    return await (await fetch(this.url + '/v1/stats')).json();
  }

  // Bytes of memory, where /proc says it.
  resident() {
    return 1024 * Number(readFileSync(`/proc/${this.process.pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+)/m)[1]);
  }

  // Waits until `holds(stats)`; no bound of time but one that only a server that hangs exceeds.
  async until(holds) {
    for (let i = 0; i < 1200; ++i) {
      const stats = await this.stats();
      if (holds(stats)) return stats;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error('never happened; last: ' + JSON.stringify(await this.stats()));
  }
}

export const scratch_folder = scratch;
