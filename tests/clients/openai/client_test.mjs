// What the official package sends is understood and what it expects comes back. Its defaults are left alone but for
// retries, which would hide errors.
// usage: node client_test.mjs KVASIR MODEL SCRATCH-DIR
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import OpenAI from 'openai';

import { Server, scratch_folder } from './server.mjs';

const model = 'kvasir-books-4m';
const ask = [{ role: 'user', content: 'It was a dark and stormy night. What happened then?' }];
const story = 'It was a dark and stormy night, and the wind';

let server, client;
const connect = (s, apiKey) => new OpenAI({ baseURL: s.url + '/v1', apiKey, maxRetries: 0 });

before(async () => {
  server = await Server.start();
  client = connect(server, 'unused');
});
after(async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }, server.log));

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}
const text_of = (chunks, index = 0) =>
  chunks.flatMap((c) => c.choices).filter((c) => c.index === index).map((c) => c.delta?.content ?? c.text ?? '').join('');

const rejects = (call, type, check) =>
  assert.rejects(call, (error) => {
    assert.ok(error instanceof type, `${error.constructor.name}: ${error.message}`);
    check?.(error);
    return true;
  });

test('models: list and retrieve', async () => {
  const list = await collect(client.models.list());
  assert.deepEqual(list.map((m) => [m.id, m.object]), [[model, 'model']]);
  assert.equal((await client.models.retrieve(model)).id, model);
});

test('chat: the whole answer and its usage', async () => {
  const answer = await client.chat.completions.create({ model, messages: ask, max_tokens: 7, temperature: 0 });
  assert.equal(answer.object, 'chat.completion');
  assert.match(answer.id, /^chatcmpl-/);
  assert.equal(answer.model, model);
  assert.equal(answer.choices.length, 1);
  assert.equal(answer.choices[0].message.role, 'assistant');
  assert.ok(answer.choices[0].message.content.length > 0);
  assert.equal(answer.choices[0].finish_reason, 'length');
  assert.equal(answer.usage.completion_tokens, 7);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 7);
  assert.ok(answer._request_id, 'the x-request-id header');
});

test('chat: a stream says the same as the whole answer', async () => {
  const request = { model, messages: ask, max_completion_tokens: 24, temperature: 0 };
  const whole = await client.chat.completions.create(request);
  const chunks = await collect(await client.chat.completions.create({ ...request, stream: true }));
  assert.ok(chunks.length > 3);
  assert.ok(chunks.every((c) => c.object === 'chat.completion.chunk' && c.id === chunks[0].id && !c.usage));
  assert.equal(chunks[0].choices[0].delta.role, 'assistant');
  assert.equal(text_of(chunks), whole.choices[0].message.content);
  assert.equal(chunks.at(-1).choices[0].finish_reason, 'length');
});

test('chat: include_usage ends a stream with a chunk of usage', async () => {
  const chunks = await collect(
    await client.chat.completions.create({
      model, messages: ask, max_tokens: 5, temperature: 0, stream: true, stream_options: { include_usage: true },
    }),
  );
  assert.ok(chunks.slice(0, -1).every((c) => c.usage === null));
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.equal(chunks.at(-1).usage.completion_tokens, 5);
});

test('chat: the stream helper puts an answer together', async () => {
  const stream = client.chat.completions.stream({ model, messages: ask, max_tokens: 12, temperature: 0 });
  let heard = '';
  stream.on('content', (delta) => (heard += delta));
  const answer = await stream.finalChatCompletion();
  assert.equal(answer.choices[0].message.content, heard);
  assert.ok(heard.length > 0);
});

test('chat: several answers, whole and streamed', async () => {
  const request = { model, messages: ask, n: 2, max_tokens: 16, seed: 11 };
  const whole = await client.chat.completions.create(request);
  assert.deepEqual(whole.choices.map((c) => c.index), [0, 1]);
  assert.equal(whole.usage.completion_tokens, 32);
  const texts = whole.choices.map((c) => c.message.content);
  assert.notEqual(texts[0], texts[1]);
  const chunks = await collect(await client.chat.completions.create({ ...request, stream: true }));
  assert.deepEqual([text_of(chunks, 0), text_of(chunks, 1)], texts, 'the seed decides');
});

test('chat: log-probabilities', async () => {
  const { choices: [choice] } = await client.chat.completions.create({
    model, messages: ask, max_tokens: 4, temperature: 0, logprobs: true, top_logprobs: 3,
  });
  assert.equal(choice.logprobs.content.length, 4);
  assert.equal(choice.logprobs.content.map((t) => t.token).join(''), choice.message.content);
  for (const token of choice.logprobs.content) {
    assert.ok(token.logprob <= 0);
    assert.equal(Buffer.from(token.bytes).toString(), token.token);
    assert.equal(token.top_logprobs.length, 3);
    assert.equal(token.top_logprobs[0].token, token.token, 'greedy takes the likeliest');
    assert.ok(token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob);
  }
});

test('chat: stop ends an answer before the word', async () => {
  const request = { model, messages: ask, max_tokens: 32, temperature: 0 };
  const whole = (await client.chat.completions.create(request)).choices[0].message.content;
  const word = whole.trim().split(/\s+/)[3];
  const { choices: [choice] } = await client.chat.completions.create({ ...request, stop: [word, 'never said'] });
  assert.equal(choice.finish_reason, 'stop');
  assert.equal(choice.message.content, whole.slice(0, whole.indexOf(word)));
  const chunks = await collect(await client.chat.completions.create({ ...request, stop: word, stream: true }));
  assert.equal(text_of(chunks), choice.message.content);
});

test('chat: tools reach the template, and so do calls and results', async () => {
  const tools = [{
    type: 'function',
    function: { name: 'weather', description: 'the weather of a place',
                parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] } },
  }];
  const prompt_tokens = async (more) =>
    (await client.chat.completions.create({ model, messages: ask, max_tokens: 1, ...more })).usage.prompt_tokens;
  const plain = await prompt_tokens({});
  const with_tools = await prompt_tokens({ tools, tool_choice: 'auto' });
  assert.ok(with_tools > plain + 20);
  assert.equal(await prompt_tokens({ tools, tool_choice: 'none' }), with_tools);  // so that pages are reused
  const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"place":"Oslo"}' } };
  const messages = [...ask, { role: 'assistant', content: null, tool_calls: [call] },
                    { role: 'tool', tool_call_id: 'call_1', content: '{"sky":"grey"}' }];
  assert.ok((await prompt_tokens({ messages, tools })) > with_tools + 10);
});

test('chat: a call that is forced is made, with arguments that conform', async () => {
  const of = (name, properties) => ({
    type: 'function',
    function: { name, parameters: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false } },
  });
  const tools = [of('weather', { place: { type: 'string', maxLength: 12 }, days: { type: 'integer', minimum: 1, maximum: 7 } }),
                 of('news', { topic: { enum: ['sport', 'war'] } })];
  const check = (call) => {
    const given = JSON.parse(call.function.arguments);
    if (call.function.name === 'news') return assert.ok(['sport', 'war'].includes(given.topic));
    assert.equal(call.function.name, 'weather');
    assert.ok(typeof given.place === 'string' && [...given.place].length <= 12);
    assert.ok(Number.isInteger(given.days) && given.days >= 1 && given.days <= 7);
  };
  const named = { model, messages: ask, tools, tool_choice: { type: 'function', function: { name: 'weather' } }, max_tokens: 200 };
  for (const seed of [1, 2, 3]) {
    const { choices: [choice] } = await client.chat.completions.create({ ...named, seed });
    assert.equal(choice.finish_reason, 'tool_calls');
    assert.equal(choice.message.content, null);
    assert.equal(choice.message.tool_calls.length, 1);
    assert.equal(choice.message.tool_calls[0].function.name, 'weather');
    check(choice.message.tool_calls[0]);
  }
  const any = await client.chat.completions.create(
    { ...named, tool_choice: 'required', parallel_tool_calls: false, seed: 4 });
  assert.equal(any.choices[0].message.tool_calls.length, 1);
  check(any.choices[0].message.tool_calls[0]);
  const chunks = await collect(await client.chat.completions.create({ ...named, seed: 1, stream: true }));
  const streamed = chunks.flatMap((c) => c.choices[0]?.delta.tool_calls ?? []);
  assert.equal(streamed.map((c) => c.function.name ?? '').join(''), 'weather');
  check({ function: { name: 'weather', arguments: streamed.map((c) => c.function.arguments ?? '').join('') } });
  await rejects(client.chat.completions.create({ ...named, tool_choice: { type: 'function', function: { name: 'none' } } }),
                OpenAI.BadRequestError, (e) => assert.equal(e.param, 'tool_choice.function.name'));
});

test('chat: answers in JSON, of any kind and of a schema', async () => {
  const schema = {
    type: 'object', additionalProperties: false, required: ['name', 'age', 'friends'],
    properties: { name: { type: 'string', minLength: 1, maxLength: 10 }, age: { type: ['integer', 'null'], minimum: 0 },
                  friends: { type: 'array', items: { enum: ['Anna', 'Pierre'] }, maxItems: 3 } },
  };
  const wanted = (strict, of = schema) => ({ type: 'json_schema', json_schema: { name: 'person', strict, schema: of } });
  for (const seed of [1, 2, 3]) {
    const { choices: [choice] } = await client.chat.completions.create(
      { model, messages: ask, response_format: wanted(true), max_tokens: 300, seed });
    assert.equal(choice.finish_reason, 'stop');
    const person = JSON.parse(choice.message.content);
    assert.deepEqual(Object.keys(person), ['name', 'age', 'friends']);
    assert.ok(person.name.length >= 1 && [...person.name].length <= 10);
    assert.ok(person.age === null || (Number.isInteger(person.age) && person.age >= 0));
    assert.ok(person.friends.length <= 3 && person.friends.every((f) => f === 'Anna' || f === 'Pierre'));
  }
  // A small model does not come to an end by itself: what there is begins like an object.
  const { choices: [any] } = await client.chat.completions.create(
    { model, messages: ask, response_format: { type: 'json_object' }, max_tokens: 30 });
  assert.match(any.message.content, /^ ?\{\s*("|\})/);
  const pattern = { type: 'object', properties: { zip: { type: 'string', pattern: '^(a)\\1$' } } };
  await rejects(client.chat.completions.create({ model, messages: ask, response_format: wanted(true, pattern) }),
                OpenAI.BadRequestError, (e) => {
                  assert.equal(e.param, 'response_format.json_schema.schema');
                  assert.match(e.message, /properties\.zip\.pattern/);
                });
});

test('chat: the second turn finds the first one', async () => {
  const messages = [{ role: 'system', content: 'You tell long stories of the sea and of those who sail on it. '.repeat(6) },
                    { role: 'user', content: 'Begin, and do not forget the storm.' }];
  const first = await client.chat.completions.create({ model, messages, max_tokens: 40, temperature: 0 });
  messages.push(first.choices[0].message, { role: 'user', content: 'And what did the captain say?' });
  const second = await client.chat.completions.create({ model, messages, max_tokens: 8, temperature: 0 });
  const cached = second.usage.prompt_tokens_details.cached_tokens;
  assert.ok(cached >= first.usage.prompt_tokens, `${cached} of at least ${first.usage.prompt_tokens} tokens`);
  assert.ok(cached < second.usage.prompt_tokens);
  assert.equal(second.kvasir.reused_tokens, cached);
});

test('completions: whole, streamed, echoed, with log-probabilities', async () => {
  const request = { model, prompt: story, max_tokens: 12, temperature: 0 };
  const whole = await client.completions.create(request);
  assert.equal(whole.object, 'text_completion');
  assert.equal(whole.usage.completion_tokens, 12);
  const text = whole.choices[0].text;
  const chunks = await collect(await client.completions.create({ ...request, stream: true }));
  assert.equal(text_of(chunks), text);
  assert.equal(chunks.at(-1).choices[0].finish_reason, 'length');
  assert.equal((await client.completions.create({ ...request, echo: true })).choices[0].text, story + text);
  const { logprobs } = (await client.completions.create({ ...request, logprobs: 2 })).choices[0];
  assert.equal(logprobs.tokens.join(''), text);
  assert.equal(logprobs.token_logprobs.length, 12);
  assert.equal(Object.keys(logprobs.top_logprobs[0]).length, 2);
  const two = await client.completions.create({ ...request, prompt: [story, 'The sea'] });
  assert.deepEqual(two.choices.map((c) => c.index), [0, 1]);
  assert.equal(two.choices[0].text, text, 'a neighbour changes nothing');
});

test('embeddings: vectors of length 1, the same alone and beside others', async () => {
  const { data, usage } = await client.embeddings.create({ model, input: ['a storm', 'the sea'] });
  assert.deepEqual(data.map((d) => d.index), [0, 1]);
  assert.ok(usage.prompt_tokens >= 2);
  for (const { embedding } of data) assert.ok(Math.abs(Math.hypot(...embedding) - 1) < 1e-4);
  const alone = await client.embeddings.create({ model, input: 'the sea', encoding_format: 'float' });
  const apart = Math.max(...alone.data[0].embedding.map((x, i) => Math.abs(x - data[1].embedding[i])));
  assert.ok(apart < 1e-5, `${apart}`);
});

test('errors: the class, and the field that is wrong', async () => {
  const chat = (more) => client.chat.completions.create({ model, messages: ask, max_tokens: 1, ...more });
  await rejects(chat({ temperature: 'hot' }), OpenAI.BadRequestError, (e) => {
    assert.equal(e.param, 'temperature');
    assert.equal(e.type, 'invalid_request_error');
  });
  await rejects(chat({ messages: [{ role: 'user' }] }), OpenAI.BadRequestError,
                (e) => assert.equal(e.param, 'messages[0].content'));
  await rejects(chat({ messages: [{ role: 'user', content: 'word '.repeat(5000) }] }), OpenAI.BadRequestError,
                (e) => assert.equal(e.code, 'context_length_exceeded'));
  await rejects(chat({ model: 'another' }), OpenAI.NotFoundError, (e) => assert.equal(e.code, 'model_not_found'));
  await rejects(chat({ stream: true, n: 0 }), OpenAI.BadRequestError, (e) => assert.equal(e.param, 'n'));
  await rejects(client.models.retrieve('another'), OpenAI.NotFoundError);
  await rejects(client.embeddings.create({ model: 'another', input: 'x' }), OpenAI.NotFoundError);
  const refused = connect({ url: 'http://127.0.0.1:1' }, 'unused');
  await rejects(refused.models.list(), OpenAI.APIConnectionError);
});

test('abort: a stream that is left ends its request', async () => {
  const before = await server.stats();
  const long = { model, messages: ask, max_tokens: 1900, stream: true, logit_bias: {} };
  const stream = await client.chat.completions.create({ ...long, ignore_eos: true });
  let seen = 0;
  for await (const chunk of stream) if (chunk.choices[0]?.delta?.content && ++seen === 3) break;
  await server.until((s) => s.queue.running === 0 && s.requests.cancelled === before.requests.cancelled + 1);

  const controller = new AbortController();
  const whole = client.chat.completions.create({ ...long, ignore_eos: true, stream: false },
                                               { signal: controller.signal });
  const outcome = rejects(whole, OpenAI.APIUserAbortError);
  await server.until((s) => s.queue.running === 1);
  controller.abort();
  await outcome;
  await server.until((s) => s.queue.running === 0 && s.requests.cancelled === before.requests.cancelled + 2);
});

test('timeout: a request that the client gives up ends', async () => {
  const before = await server.stats();
  const impatient = client.withOptions({ timeout: 300 });
  // One answer alone may be there in less than the time-out.
  await rejects(impatient.chat.completions.create({ model, messages: ask, max_tokens: 1900, n: 16, ignore_eos: true }),
                OpenAI.APIConnectionTimeoutError);
  await server.until((s) => s.queue.running === 0 && s.requests.cancelled > before.requests.cancelled);
});

test('many at once: every stream is whole', async () => {
  const request = { model, prompt: story, max_tokens: 16, temperature: 0 };
  const expected = (await client.completions.create(request)).choices[0].text;
  const streams = await Promise.all(
    Array.from({ length: 40 }, async () => text_of(await collect(await client.completions.create({ ...request, stream: true })))),
  );
  assert.deepEqual(streams, Array(40).fill(expected));
});

test('a full queue is a RateLimitError at once, and the client tries again', async () => {
  const small = await Server.start('--running', '1', '--waiting', '0');
  try {
    const one = connect(small, 'unused');
    const held = await one.completions.create({ model, prompt: story, max_tokens: 1900, stream: true, ignore_eos: true });
    await small.until((s) => s.queue.running === 1);
    await rejects(one.completions.create({ model, prompt: story, max_tokens: 2 }), OpenAI.RateLimitError,
                  (e) => assert.match(e.headers.get('retry-after'), /^\d+$/));
    const patient = one.withOptions({ maxRetries: 8 });
    const answer = patient.completions.create({ model, prompt: story, max_tokens: 2 });
    held.controller.abort();
    assert.equal((await answer).usage.completion_tokens, 2);
  } finally {
    assert.deepEqual(await small.stop(), { code: 0, signal: null });
  }
});

test('keys: a wrong one is an AuthenticationError, a right one its own tenant', async () => {
  const file = join(scratch_folder, 'keys');
  writeFileSync(file, 'alpha-key first\nbeta-key second\n');
  const locked = await Server.start('--api-key-file', file);
  try {
    await rejects(connect(locked, 'gamma-key').models.list(), OpenAI.AuthenticationError,
                  (e) => assert.equal(e.code, 'invalid_api_key'));
    const prompt = story.repeat(20);
    const cached = async (key) =>
      (await connect(locked, key).completions.create({ model, prompt, max_tokens: 1 }))
        .usage.prompt_tokens_details.cached_tokens;
    assert.equal(await cached('alpha-key'), 0);
    assert.equal(await cached('beta-key'), 0);
    assert.ok((await cached('alpha-key')) > 0);
  } finally {
    await locked.stop();
  }
});
