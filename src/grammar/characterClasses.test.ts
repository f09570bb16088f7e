import { expect, test } from "vitest";
import { propertyRanges } from "./characterClasses.js";

test.each([
  "L",
  "Lu",
  "Script=Greek",
  "Script_Extensions=Han",
  "Cn",
  "Co",
  "Assigned",
  "Noncharacter_Code_Point",
  "Default_Ignorable_Code_Point",
  "Any",
])("the characters of \\p{%s} are those that JavaScript matches one by one", (property) => {
  const one = new RegExp(`^\\p{${property}}$`, "u");
  const ranges: [number, number][] = [];
  for (let code = 0; code <= 0x10ffff; code++) {
    if ((code >= 0xd800 && code < 0xe000) || !one.test(String.fromCodePoint(code))) continue;
    const last = ranges.at(-1);
    if (last?.[1] === code - 1) last[1] = code;
    else ranges.push([code, code]);
  }
  expect(propertyRanges(property)).toEqual(ranges);
});

test.each(["", "Nothing", "L}|\\p{N", "Script=", "RGI_Emoji"])("%j is no property of a character", (property) => {
  expect(propertyRanges(property)).toBeNull();
});
