// Compiles the shaders of this folder into spirv.h and spirv.cpp, which the addon is built from.
//
//   node native/backends/vulkan/shaders/compile.mjs            writes them; needs glslangValidator (Debian: glslang-tools)
//   node native/backends/vulkan/shaders/compile.mjs --check    compares instead, and fails where they differ
//
// There is one of each for all devices and types: specialisation constants say which type is computed in, and what a device
// has of its own is put in where the shader is given to it (../shader_words.cpp).

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = dirname(fileURLToPath(import.meta.url));

/** Of SPIR-V's specification. */
const OP = {
  extension: 10,
  capability: 17,
  typeInt: 21,
  typeFloat: 22,
  constantTrue: 41,
  constant: 43,
};
/** Of cooperative matrices: [NVIDIA's first version, VK_KHR_cooperative_matrix]. */
const MATRIX = {
  capability: [5357, 6022],
  type: [5358, 4456],
  load: [5359, 4457],
  store: [5360, 4458],
  add: [5361, 4459],
};
const MATRIX_EXTENSION = ["SPV_NV_cooperative_matrix", "SPV_KHR_cooperative_matrix"];
const HEADER_WORDS = 5;

/** [{ name, words }] of the shaders here, by name. @throws Error with what the compiler wrote */
export function compileAll() {
  const scratch = mkdtempSync(join(tmpdir(), "anneal-spirv-"));
  try {
    return readdirSync(FOLDER)
      .filter((file) => file.endsWith(".comp"))
      .sort()
      .map((file) => ({ name: basename(file, ".comp"), words: compileOne(file, join(scratch, "out.spv")) }));
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

function compileOne(file, out) {
  const args = ["-V", "--target-env", "vulkan1.2", "-g0", "--quiet", "-o", out, file];
  const { status, stdout, error } = spawnSync("glslangValidator", args, { cwd: FOLDER, encoding: "utf8" });
  if (error) throw error;
  if (status !== 0) throw new Error(`${file}:\n${stdout}`);
  const bytes = readFileSync(out);
  return anyVendors(Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readUInt32LE(4 * i)));
}

/** The instructions of SPIR-V: [operation, ...operands]. */
function* instructions(words) {
  for (let at = HEADER_WORDS; at < words.length; at += words[at] >>> 16)
    yield [words[at] & 0xffff, ...words.slice(at + 1, at + (words[at] >>> 16))];
}

/** Words of a text, as an instruction has it. */
function literal(value) {
  const bytes = Buffer.alloc((value.length & ~3) + 4);
  bytes.write(value);
  return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readUInt32LE(4 * i));
}

/**
 * With cooperative matrices of VK_KHR_cooperative_matrix, which this compiler does not know, in the place of NVIDIA's first version
 * of them. Those say in their type what a matrix is used as: the one of 32 bits is the sum; of the others the left one has its rows,
 * and the right one its columns.
 */
function anyVendors(words) {
  const all = [...instructions(words)];
  if (!all.some(([op, value]) => op === OP.capability && value === MATRIX.capability[0])) return words;
  const [bound, uint] = [words[3], all.find(([op, , bits, sign]) => op === OP.typeInt && bits === 32 && sign === 0)[1]];
  const wide = new Set(all.filter(([op, , bits]) => op === OP.typeFloat && bits === 32).map(([, id]) => id));
  const trues = new Set(all.filter(([op]) => op === OP.constantTrue).map(([, , id]) => id));
  const sum = all.find(([op, , component]) => op === MATRIX.type[0] && wide.has(component));
  const use = ([, , component, , rows]) => bound + (wide.has(component) ? 2 : rows === sum[4] ? 0 : 1);
  const layout = (byColumns) => bound + (trues.has(byColumns) ? 1 : 0);
  const rewritten = ([op, ...rest]) => {
    if (op === OP.capability && rest[0] === MATRIX.capability[0]) return [op, MATRIX.capability[1]];
    if (op === OP.extension && `${rest}` === `${literal(MATRIX_EXTENSION[0])}`)
      return [op, ...literal(MATRIX_EXTENSION[1])];
    if (op === MATRIX.type[0]) return [MATRIX.type[1], ...rest, use([op, ...rest])];
    if (op === MATRIX.add[0]) return [MATRIX.add[1], ...rest];
    // A pointer's stride and then its layout, the other way around.
    const at = op === MATRIX.load[0] ? 3 : 2;
    if (op === MATRIX.load[0] || op === MATRIX.store[0]) {
      const [stride, byColumns, ...access] = rest.slice(at);
      return [
        op === MATRIX.load[0] ? MATRIX.load[1] : MATRIX.store[1],
        ...rest.slice(0, at),
        layout(byColumns),
        stride,
        ...access,
      ];
    }
    return [op, ...rest];
  };
  const numbers = [0, 1, 2].map((value) => [OP.constant, uint, bound + value, value]);
  const result = [...words.slice(0, HEADER_WORDS)];
  result[3] = bound + numbers.length;
  for (const instruction of all) {
    const here =
      instruction[0] === OP.typeInt && instruction[1] === uint ? [instruction, ...numbers] : [rewritten(instruction)];
    for (const [op, ...rest] of here) result.push(((rest.length + 1) << 16) | op, ...rest);
  }
  return result;
}

/**
 * Words as text: five bits to a character, the lowest first, with 32 added where more follow; from # on, without ? and \\. An
 * instruction's first word is two numbers, its length and its operation.
 */
function packed(words) {
  let text = "";
  const put = (word) => {
    for (let rest = word >>> 0; ; rest >>>= 5) {
      const digit = rest < 32 ? rest : (rest & 31) | 32;
      const code = 35 + digit + (digit >= 28 ? 1 : 0) + (digit >= 56 ? 1 : 0);
      text += String.fromCharCode(code);
      if (rest < 32) return;
    }
  };
  words.slice(0, HEADER_WORDS).forEach(put);
  for (const [operation, ...operands] of instructions(words))
    [operands.length + 1, operation, ...operands].forEach(put);
  return text;
}

const camel = (name) => name.replace(/(?:^|_)(\w)/g, (_, letter) => letter.toUpperCase());

/** The compiler, as it calls itself: others may write other words for the same. Null: there is none. */
export function compilerVersion() {
  const { status, stdout } = spawnSync("glslangValidator", ["--version"], { encoding: "utf8" });
  return status === 0 ? stdout.split("\n")[0].replace("Glslang Version: ", "glslang ").trim() : null;
}

/** SHA-256 of all that shaders are compiled from. */
export function sourceHash() {
  const hash = createHash("sha256");
  for (const file of readdirSync(FOLDER).sort())
    if (/\.(comp|glsl|mjs)$/.test(file)) hash.update(readFileSync(join(FOLDER, file), "utf8").replaceAll("\r\n", "\n"));
  return hash.digest("hex");
}

/** The files' texts by name. */
export function generated() {
  const compiled = compileAll().map(({ name, words }) => ({ name, count: words.length, text: packed(words) }));
  const header = `// Generated by compile.mjs from the shaders of this folder, with ${compilerVersion()}.
// Sources: ${sourceHash()}
#pragma once
#include <cstdint>
#include <vector>

namespace anneal::vulkan {

enum class Shader : uint8_t {
${compiled.map(({ name }) => `  k${camel(name)},`).join("\n")}
};
constexpr int kShaders = ${compiled.length};

// The words of a shader, as they are for all devices.
std::vector<uint32_t> spirv(Shader);

}  // namespace anneal::vulkan
`;
  const lines = ({ name, count, text }) => {
    const pieces = text.match(/.{1,116}/g).map((piece) => `"${piece}"`);
    return `// ${name}\n{${count}, ${pieces.join("\n")}},`;
  };
  const source = `// Generated by compile.mjs from the shaders of this folder.
#include "spirv.h"

#include <cstddef>

namespace anneal::vulkan {
namespace {

// Words as characters, as compile.mjs packs them.
struct Packed {
  size_t words;
  const char* text;
};

// clang-format off
const Packed kAll[] = {
${compiled.map(lines).join("\n")}
};
// clang-format on

uint32_t next(const char*& at) {
  uint32_t word = 0;
  for (int shift = 0;; shift += 5) {
    const int code = *at++, digit = code - 35 - (code > '?') - (code > '\\\\');
    word |= uint32_t(digit & 31) << shift;
    if (digit < 32) return word;
  }
}

}  // namespace

std::vector<uint32_t> spirv(Shader shader) {
  constexpr size_t header = ${HEADER_WORDS};
  const Packed& packed = kAll[int(shader)];
  const char* at = packed.text;
  std::vector<uint32_t> words;
  words.reserve(packed.words);
  while (words.size() < header) words.push_back(next(at));
  while (words.size() < packed.words) {
    const uint32_t count = next(at), operation = next(at);
    words.push_back(count << 16 | operation);
    for (uint32_t i = 1; i < count; i++) words.push_back(next(at));
  }
  return words;
}

}  // namespace anneal::vulkan
`;
  return { "spirv.h": header, "spirv.cpp": source };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const check = process.argv.includes("--check");
  if (compilerVersion() === null) throw new Error("glslangValidator is not there (Debian: apt install glslang-tools)");
  for (const [file, wanted] of Object.entries(generated())) {
    const path = join(FOLDER, file);
    if (!check) writeFileSync(path, wanted);
    else if (readFileSync(path, "utf8") !== wanted) {
      console.error(`${path} is not what its shaders compile to: run node ${process.argv[1]}`);
      process.exitCode = 1;
    }
  }
}
