// What packages for Node.js other than OpenAI's send is understood and what they expect comes back.
// usage: node client_test.mjs KVASIR MODEL SCRATCH-DIR
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import Anthropic from '@anthropic-ai/sdk';
import { generateObject, generateText, jsonSchema, streamText, tool } from 'ai';
import { Ollama } from 'ollama';

import { Server } from './server.mjs';

const model = 'kvasir-books-4m';
const ask = [{ role: 'user', content: 'It was a dark and stormy night. What happened then?' }];
const schema = { type: 'object', properties: { place: { enum: ['Oslo', 'Rome'] } }, required: ['place'], additionalProperties: false };

let server;
before(async () => { server = await Server.start(); });
after(async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }, server.log));

test('@anthropic-ai/sdk: whole, streamed, tools there and back, counted', async () => {
  const client = new Anthropic({ baseURL: server.url, apiKey: 'unused', maxRetries: 0 });
  const request = { model, messages: ask, max_tokens: 12, temperature: 0 };
  const whole = await client.messages.create(request);
  assert.equal(whole.stop_reason, 'max_tokens');
  assert.equal(whole.usage.output_tokens, 12);
  const stream = client.messages.stream(request);
  let text = '';
  stream.on('text', (part) => { text += part; });
  const final = await stream.finalMessage();
  assert.equal(text, whole.content[0].text);
  assert.deepEqual(final.content.map((b) => b.text), [text]);
  assert.equal(final.usage.output_tokens, 12);
  assert.ok(final.usage.cache_read_input_tokens > 10);
  assert.equal((await client.messages.countTokens({ model, messages: ask })).input_tokens,
               whole.usage.input_tokens + whole.usage.cache_read_input_tokens);
  const tools = [{ name: 'weather', input_schema: schema }];
  const call = await client.messages.stream({ ...request, tools, tool_choice: { type: 'any', disable_parallel_tool_use: true }, max_tokens: 400 }).finalMessage();
  assert.equal(call.stop_reason, 'tool_use');
  const use = call.content.find((b) => b.type === 'tool_use');
  assert.ok(['Oslo', 'Rome'].includes(use.input.place));
  const back = await client.messages.create({
    ...request, tools,
    messages: [...ask, { role: 'assistant', content: call.content },
               { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'grey' }] }],
  });
  assert.ok(back.usage.cache_read_input_tokens >= whole.usage.input_tokens);
  await assert.rejects(client.messages.create({ ...request, messages: [] }), Anthropic.BadRequestError);
  await assert.rejects(client.messages.create({ ...request, model: 'claude' }), Anthropic.NotFoundError);
});

test('@anthropic-ai/sdk: a stream that is left ends its request', async () => {
  const client = new Anthropic({ baseURL: server.url, apiKey: 'unused', maxRetries: 0 });
  const before = await server.stats();
  const stream = client.messages.stream({ model, messages: ask, max_tokens: 1900, stop_sequences: ['never said'] });
  let seen = 0;
  try {
    for await (const event of stream) if (event.type === 'content_block_delta' && ++seen === 3) stream.abort();
  } catch (error) {
    assert.ok(error instanceof Anthropic.APIUserAbortError);
  }
  await server.until((s) => s.queue.running === 0 && s.requests.accepted > before.requests.accepted);
});

test('ollama: list, show, chat, generate, JSON, errors', async () => {
  const client = new Ollama({ host: server.url });
  assert.deepEqual((await client.list()).models.map((m) => m.name), [model + ':latest']);
  assert.ok((await client.show({ model })).capabilities.includes('completion'));
  assert.equal((await client.ps()).models.length, 1);
  const options = { num_predict: 12, temperature: 0 };
  const whole = await client.chat({ model, messages: ask, options });
  assert.equal(whole.eval_count, 12);
  let text = '';
  for await (const part of await client.chat({ model, messages: ask, options, stream: true })) text += part.message.content;
  assert.equal(text, whole.message.content);
  text = '';
  for await (const part of await client.generate({ model, prompt: 'It was', options, stream: true })) text += part.response;
  assert.equal(text, (await client.generate({ model, prompt: 'It was', options })).response);
  const json = await client.chat({ model, messages: ask, format: schema, options: { num_predict: 60 } });
  assert.ok(['Oslo', 'Rome'].includes(JSON.parse(json.message.content).place));
  await assert.rejects(client.chat({ model: 'another', messages: ask }), /another/);
});

for (const [name, provide] of [
  ['responses', (url) => createOpenAI({ baseURL: url + '/v1', apiKey: 'unused' }).responses(model)],
  ['chat', (url) => createOpenAI({ baseURL: url + '/v1', apiKey: 'unused' }).chat(model)],
  ['messages', (url) => createAnthropic({ baseURL: url + '/v1', apiKey: 'unused' })(model)],
]) {
  test(`Vercel AI SDK over ${name}: text, stream, tools, object`, async () => {
    const base = { model: provide(server.url), messages: ask, maxOutputTokens: 12, temperature: 0, maxRetries: 0 };
    const whole = await generateText(base);
    assert.equal(whole.usage.outputTokens, 12);
    const stream = streamText(base);
    let text = '';
    for await (const part of stream.textStream) text += part;
    assert.equal(text, whole.text);
    assert.ok((await stream.usage).cachedInputTokens > 10);
    const tools = { weather: tool({ description: 'the weather of a place', inputSchema: jsonSchema(schema), execute: ({ place }) => `grey in ${place}` }) };
    const called = await generateText({ ...base, tools, toolChoice: { type: 'tool', toolName: 'weather' }, maxOutputTokens: 100 });
    assert.match(called.toolResults[0].output, /^grey in (Oslo|Rome)$/);
    const { object } = await generateObject({ ...base, schema: jsonSchema(schema), maxOutputTokens: 100 });
    assert.ok(['Oslo', 'Rome'].includes(object.place));
  });
}
