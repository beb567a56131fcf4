// Fifty calls of @redis/bloom on a running server: `node fifty_calls.mjs 127.0.0.1:PORT`, in RESP2 and RESP3.
//
// Run it by hand where the npm packages `redis` and `@redis/bloom` can be imported: below the folder that they are installed
// in, or with NODE_PATH naming its node_modules. It prints each call that answers something else, and how many did not.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { createClient, RESP_TYPES } = require('redis');

const address = process.argv[2] ?? '127.0.0.1:6380';

/// The calls of one connection: each compares what it answers.
function calls(client, bytes) {
  const { bf, cf } = client;
  const dumped = {};
  const near = (value, expected) => assert.equal(Number(value), expected);
  return [
    ['FLUSHALL', async () => assert.equal(await client.flushAll(), 'OK')],
    ['PING', async () => assert.equal(await client.ping(), 'PONG')],
    ['bf.reserve', async () => assert.equal(await bf.reserve('bloom', 0.001, 1000), 'OK')],
    ['bf.reserve again', () => assert.rejects(bf.reserve('bloom', 0.001, 1000), /item exists/)],
    ['bf.reserve, EXPANSION', async () => assert.equal(await bf.reserve('grows', 0.01, 10, { EXPANSION: 4 }), 'OK')],
    ['bf.reserve, NONSCALING', async () => assert.equal(await bf.reserve('fixed', 0.01, 2, { NONSCALING: true }), 'OK')],
    ['bf.reserve, a bad rate', () => assert.rejects(bf.reserve('bad', 2, 10), /error rate/)],
    ['bf.add', async () => assert.equal(await bf.add('bloom', 'a'), true)],
    ['bf.add again', async () => assert.equal(await bf.add('bloom', 'a'), false)],
    ['bf.add of ten bytes', async () => assert.equal(await bf.add('bloom', 'ünïcödé'), true)],
    ['bf.exists', async () => assert.equal(await bf.exists('bloom', 'a'), true)],
    ['bf.exists, absent', async () => assert.equal(await bf.exists('bloom', 'b'), false)],
    ['bf.exists, no key', async () => assert.equal(await bf.exists('nokey', 'b'), false)],
    ['bf.mAdd', async () => assert.deepEqual(await bf.mAdd('bloom', ['a', 'b', 'c']), [false, true, true])],
    ['bf.mExists', async () => assert.deepEqual(await bf.mExists('bloom', ['a', 'c', 'd']), [true, true, false])],
    ['bf.insert', async () => assert.deepEqual(await bf.insert('inserted', ['a', 'b', 'a']), [true, true, false])],
    ['bf.insert, options', async () =>
      assert.deepEqual(await bf.insert('sized', 'a', { CAPACITY: 500, ERROR: 0.01, EXPANSION: 3 }), [true])],
    ['bf.insert, NOCREATE', () => assert.rejects(bf.insert('missing', 'a', { NOCREATE: true }), /not found/)],
    ['bf.insert, NONSCALING', async () =>
      assert.deepEqual(await bf.insert('nonscaling', ['a'], { CAPACITY: 5, NONSCALING: true }), [true])],
    ['bf.card', async () => near(await bf.card('bloom'), 4)],
    ['bf.card, no key', async () => near(await bf.card('nokey'), 0)],
    ['bf.info', async () => {
      const info = await bf.info('sized');
      near(info.Capacity, 500);
      near(info['Number of items inserted'], 1);
      near(info['Expansion rate'], 3);
      assert.ok(Number(info.Size) > 0);
    }],
    ['bf.info, nonscaling', async () => assert.equal((await bf.info('nonscaling'))['Expansion rate'], null)],
    ['bf.info, no key', () => assert.rejects(bf.info('nokey'), /not found/)],
    ['a full filter', async () => {
      await bf.mAdd('fixed', ['a', 'b']);
      await assert.rejects(bf.add('fixed', 'c'), /full/);
    }],
    ['bf.scanDump', async () => {
      dumped.bloom = [];
      for (let iterator = 0; ; ) {
        const { iterator: next, chunk } = await bytes.bf.scanDump('bloom', iterator);
        if (Number(next) === 0) break;
        dumped.bloom.push([next, chunk]);
        iterator = next;
      }
      assert.ok(dumped.bloom.length > 1);
    }],
    ['cf.reserve', async () => assert.equal(await cf.reserve('cuckoo', 1000), 'OK')],
    ['cf.reserve, options', async () =>
      assert.equal(await cf.reserve('options', 1000, { BUCKETSIZE: 4, MAXITERATIONS: 30, EXPANSION: 2 }), 'OK')],
    ['cf.reserve again', () => assert.rejects(cf.reserve('cuckoo', 1000), /item exists/)],
    ['cf.reserve, too small', () => assert.rejects(cf.reserve('small', 1), /Capacity/)],
    ['cf.add', async () => assert.equal(await cf.add('cuckoo', 'a'), true)],
    ['cf.add again', async () => assert.equal(await cf.add('cuckoo', 'a'), true)],
    ['cf.addNX', async () => assert.equal(await cf.addNX('cuckoo', 'a'), false)],
    ['cf.addNX, new', async () => assert.equal(await cf.addNX('cuckoo', 'b'), true)],
    ['cf.count', async () => near(await cf.count('cuckoo', 'a'), 2)],
    ['cf.exists', async () => assert.equal(await cf.exists('cuckoo', 'a'), true)],
    ['cf.exists, absent', async () => assert.equal(await cf.exists('cuckoo', 'z'), false)],
    ['cf.del', async () => assert.equal(await cf.del('cuckoo', 'a'), true)],
    ['cf.del, absent', async () => assert.equal(await cf.del('cuckoo', 'z'), false)],
    ['cf.insert', async () => assert.deepEqual(await cf.insert('cuckoo', ['c', 'd']), [true, true])],
    ['cf.insert, CAPACITY', async () => assert.deepEqual(await cf.insert('made', 'a', { CAPACITY: 100 }), [true])],
    ['cf.insert, NOCREATE', () => assert.rejects(cf.insert('missing', 'a', { NOCREATE: true }), /not found/)],
    ['cf.insertNX', async () => assert.deepEqual((await cf.insertNX('cuckoo', ['c', 'e'])).map(Number), [0, 1])],
    ['cf.mExists', async () => assert.deepEqual(await cf.mExists('cuckoo', ['c', 'z']), [true, false])],
    ['cf.info', async () => {
      const info = await cf.info('options');
      near(info['Bucket size'], 4);
      near(info['Max iterations'], 30);
      near(info['Expansion rate'], 2);
    }],
    ['multi', async () => {
      const answers = await client.multi().bf.add('multi', 'a').bf.exists('multi', 'a').bf.exists('multi', 'b').exec();
      assert.deepEqual(answers, [true, true, false]);
    }],
    ['a pipeline', async () => {
      const added = await Promise.all(Array.from({ length: 200 }, (_, number) => bf.add('bloom', `item-${number}`)));
      assert.ok(added.filter(Boolean).length > 195);
    }],
    ['scanIterator', async () => {
      const found = new Set();
      for await (const keys of client.scanIterator({ MATCH: '*' })) for (const key of [keys].flat()) found.add(key);
      assert.ok(['bloom', 'cuckoo', 'grows', 'multi'].every((key) => found.has(key)));
    }],
    ['rename, expire, ttl, type, del', async () => {
      assert.equal(await client.rename('grows', 'renamed'), 'OK');
      assert.ok([1, true].includes(await client.expire('renamed', 100)));
      const left = await client.ttl('renamed');
      assert.ok(left > 0 && left <= 100);
      assert.equal(await client.type('renamed'), 'MBbloom--');
      assert.equal(await client.del('renamed'), 1);
      assert.equal(await client.exists('renamed'), 0);
    }],
    ['bf.loadChunk', async () => {
      await client.del('bloom');
      for (const [iterator, chunk] of dumped.bloom) assert.equal(await bf.loadChunk('bloom', iterator, chunk), 'OK');
      assert.deepEqual(await bf.mExists('bloom', ['a', 'b', 'c', 'ünïcödé', 'zz']), [true, true, true, true, false]);
    }],
  ];
}

let wrong = 0;
let right = 0;
for (const RESP of [2, 3]) {
  const made = createClient({ url: `redis://${address}`, RESP });
  made.on('error', (error) => console.error(`RESP${RESP}: ${error.message}`));
  await made.connect();
  // Chunks are bytes, not text.
  const bytes = made.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  const list = calls(made, bytes);
  assert.equal(list.length, 50);
  for (const [name, call] of list) {
    try {
      await call();
      right += 1;
    } catch (error) {
      wrong += 1;
      console.log(`RESP${RESP}, ${name}: ${error.message.replaceAll('\n', ' ')}`);
    }
  }
  await made.close();
}
console.log(`${right} passed, ${wrong} failed`);
process.exitCode = wrong ? 1 : 0;
