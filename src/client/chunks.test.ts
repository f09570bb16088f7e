import { expect, it } from "vitest";
import { readChunks } from "./chunks.js";

/** A response whose body comes in pieces of so many bytes. */
function response(text: string, size: number): Response {
  const bytes = new TextEncoder().encode(text);
  return new Response(
    new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.subarray(at, at + size));
        controller.close();
      },
    }),
  );
}

async function read(text: string, size: number): Promise<unknown[]> {
  const chunks: unknown[] = [];
  for await (const chunk of readChunks(response(text, size))) chunks.push(chunk);
  return chunks;
}

it.each([
  ["\n", 1],
  ["\r\n", 1],
  ["\r", 3],
  ["\n", 1000],
])("reads events whose lines end in %j, in pieces of %d bytes", async (end, size) => {
  const lines = [
    ": a comment",
    'data: {"text":"naïve"}',
    "",
    'data:{"two":',
    "data: 2}",
    "",
    "data: [DONE]",
    "",
    ": the end",
  ];
  expect(await read(lines.join(end), size)).toEqual([{ text: "naïve" }, { two: 2 }]);
});

it("throws the error that stands in place of a chunk, and one of its own when the stream breaks off", async () => {
  const error = 'data: {"error":{"message":"no memory","code":"out_of_memory"}}\n\n';
  await expect(read(error, 7)).rejects.toMatchObject({ status: 500, code: "out_of_memory", message: "no memory" });
  await expect(read('data: {"a":1}\n\ndata: {"b":', 5)).rejects.toMatchObject({ code: "stream_broken" });
});
