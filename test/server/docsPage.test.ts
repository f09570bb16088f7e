// The page for people: whole, loading nothing, saying what the document says.

import { afterAll, beforeAll, expect, it } from "vitest";
import { docsPage } from "../../src/server/docsPage.js";
import { Harness } from "./harness.js";

let server: Harness;
let page: string;
beforeAll(async () => {
  server = await Harness.open({}, { basePath: "/llm" });
  const answer = await server.handler(new Request("http://test/llm/docs"));
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(answer.headers.get("content-security-policy")).toContain("default-src 'none'");
  page = await answer.text();
});
afterAll(() => server?.close());

it("needs no key and nothing but itself", () => {
  expect(page).not.toMatch(/<(script|link|img|iframe)|https?:|url\(|@import/i);
});

it("has every operation, every response and every object, and links that lead somewhere", async () => {
  const { body } = await server.call("GET", "/llm/openapi.json");
  const ids = [...page.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id!);
  expect(new Set(ids).size).toBe(ids.length);
  for (const [, to] of page.matchAll(/href="#([^"]*)"/g)) expect(ids).toContain(to);
  for (const name of Object.keys(body.components.schemas)) expect(ids).toContain(name);
  for (const [path, methods] of Object.entries(body.paths)) {
    for (const [method, { summary, responses }] of Object.entries(methods)) {
      const from = page.indexOf(`<h3 id="${`${method.toUpperCase()} ${path}`.replace(/[^\w]+/g, "-")}"`);
      const section = page.slice(from, page.indexOf("</section>", from));
      expect(from, `${method} ${path}`).toBeGreaterThan(0);
      expect(section).toContain(summary.replaceAll("'", "&#39;"));
      for (const status of Object.keys(responses)) expect(section, `${method} ${path}`).toContain(`<td>${status}</td>`);
    }
  }
});

it("shows what the document says as text, whatever it is", () => {
  const told = { summary: `<b>"a" & 'b'</b>`, responses: { 200: { description: "<script>" } } };
  const shown = docsPage({ paths: { "/<x>": { get: told } }, components: { schemas: { A: { const: "<i>" } } } });
  expect(shown).toContain("&lt;b&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/b&gt;");
  expect(shown).not.toMatch(/<script|<i>|<b>|<x>/);
});
