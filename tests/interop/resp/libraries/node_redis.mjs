// node-redis: groups by hand, and XAUTOCLAIM.

import { createClient } from "redis";

const [verb, host, port, word] = process.argv.slice(2);
const client = await createClient({ socket: { host, port: Number(port) } }).connect();

async function handle({ id, message }) {
  console.log(message.number);
  if (verb === "hang") await new Promise((resolve) => setTimeout(resolve, 600_000));
  await client.xAck("orders.node", "g", id);
}

if (verb === "add") {
  for (let number = 0; number < Number(word); number++) {
    const kind = number % 2 ? "slow" : "express";
    await client.xAdd("orders.node", "*", { kind, number: String(number) });
  }
  await client.close();
  process.exit();
}
try {
  await client.xGroupCreate("orders.node", "g", "$", { MKSTREAM: true });
} catch (error) {
  if (!error.message.startsWith("BUSYGROUP")) throw error;
}
for (;;) {
  const claimed = await client.xAutoClaim("orders.node", "g", word, 300, "0-0", { COUNT: 10 });
  for (const entry of claimed.messages) await handle(entry);
  const streams = { key: "orders.node", id: ">" };
  const found = await client.xReadGroup("g", word, streams, { COUNT: 10, BLOCK: 100 });
  for (const stream of found ?? []) for (const entry of stream.messages) await handle(entry);
}
