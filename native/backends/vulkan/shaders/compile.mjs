// Compiles the shaders of this folder into spirv.h and spirv.cpp, which the addon is built from.
//
//   node native/backends/vulkan/shaders/compile.mjs            writes them; needs glslangValidator (Debian: glslang-tools)
//   node native/backends/vulkan/shaders/compile.mjs --check    compares instead, and fails where they differ
//
// Every shader is compiled for both ways of a fused multiply-add; those that read or write elements of the compute type,
// for each of these as well; those on cooperative matrices for bfloat16 alone.

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
  extInst: 12,
  capability: 17,
  firstType: 19,
  typeInt: 21,
  typeFloat: 22,
  lastType: 39,
  constantTrue: 41,
  constant: 43,
  decorate: 71,
};
const ARITHMETIC = new Set([129, 131, 133, 136, 142]); // FAdd, FSub, FMul, FDiv, VectorTimesScalar
const FUSED = new Set([31, 32, 50]); // Sqrt, InverseSqrt, Fma of GLSL.std.450
const NO_CONTRACTION = 42;
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

/** [{ name, types }] of the shaders here, by name; `types`: what is defined for a variant, and how its name ends. */
export function shaders() {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith(".comp"))
    .sort()
    .map((file) => ({ name: basename(file, ".comp"), types: typesOf(file) }));
}

function typesOf(file) {
  if (/#include "cooperative\.glsl"/.test(readFileSync(join(FOLDER, file), "utf8"))) return [{ type: "BF16", end: "" }];
  if (!/\b(Elements|Granules|kGranule|kStep|rounded)\b/.test(text(file))) return [{ type: "", end: "" }];
  return ["F32", "BF16"].map((type) => ({ type, end: `_${type.toLowerCase()}` }));
}

function text(file) {
  return readFileSync(join(FOLDER, file), "utf8").replace(/^.*#include.*$/gm, "");
}

/** [{ id, words }] of all variants. @throws Error with what the compiler wrote */
export function compileAll() {
  const scratch = mkdtempSync(join(tmpdir(), "anneal-spirv-"));
  try {
    return shaders().flatMap(({ name, types }) =>
      types.flatMap(({ type, end }) =>
        ["FUSED", "UNFUSED"].map((way) => ({
          id: `${name}${end}_${way.toLowerCase()}`,
          words: compileOne(name, [type, way].filter(Boolean), join(scratch, "out.spv")),
        })),
      ),
    );
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

function compileOne(name, definitions, out) {
  const args = ["-V", "--target-env", "vulkan1.2", "-g0", "--quiet", ...definitions.map((d) => `-D${d}`)];
  const { status, stdout, error } = spawnSync("glslangValidator", [...args, "-o", out, `${name}.comp`], {
    cwd: FOLDER,
    encoding: "utf8",
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`${name} (${definitions}):\n${stdout}`);
  const bytes = readFileSync(out);
  return uncontracted(anyVendors(Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readUInt32LE(4 * i))));
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

/** With every operation on floats decorated, so that a driver neither fuses nor reorders any. */
function uncontracted(words) {
  const decorations = [];
  let types = 0;
  for (let at = HEADER_WORDS; at < words.length; at += words[at] >>> 16) {
    const op = words[at] & 0xffff;
    if (!types && op >= OP.firstType && op <= OP.lastType) types = at;
    if (ARITHMETIC.has(op) || (op === OP.extInst && FUSED.has(words[at + 4])))
      decorations.push((3 << 16) | OP.decorate, words[at + 2], NO_CONTRACTION);
  }
  return [...words.slice(0, types), ...decorations, ...words.slice(types)];
}

/** Words, seven bits to a byte. */
function packed(words) {
  return words.flatMap((word) => {
    const bytes = [];
    for (let rest = word >>> 0; ; rest >>>= 7) {
      bytes.push(rest < 0x80 ? rest : (rest & 0x7f) | 0x80);
      if (rest < 0x80) return bytes;
    }
  });
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
  const compiled = compileAll();
  const by = new Map(compiled.map(({ id, words }) => [id, words]));
  const header = `// Generated by compile.mjs from the shaders of this folder, with ${compilerVersion()}.
// Sources: ${sourceHash()}
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace anneal::vulkan {

enum class Shader : uint8_t {
${shaders()
  .flatMap(({ name, types }) => types.map(({ end }) => `  k${camel(name + end)},`))
  .join("\n")}
};

// The words of a shader. \`fused\`: for a device whose fma rounds once.
std::vector<uint32_t> spirv(Shader, bool fused);

}  // namespace anneal::vulkan
`;
  const arrays = compiled.map(({ id, words }) => {
    const bytes = packed(words);
    const lines = [];
    for (let i = 0; i < bytes.length; i += 48) lines.push(bytes.slice(i, i + 48).join(","));
    return `const uint8_t ${id}[] = {\n${lines.join(",\n")}};\n`;
  });
  const entry = (id) => `{${id}, ${by.get(id).length}}`;
  const table = shaders().flatMap(({ name, types }) =>
    types.map(({ end }) => `    {${entry(`${name}${end}_unfused`)}, ${entry(`${name}${end}_fused`)}},`),
  );
  const source = `// Generated by compile.mjs from the shaders of this folder.
#include "spirv.h"

namespace anneal::vulkan {
namespace {

// Words, seven bits to a byte, the lowest first; the eighth says that more follow.
struct Packed {
  const uint8_t* bytes;
  size_t words;
};

// clang-format off
${arrays.join("\n")}
// By shader, and whether fma is fused.
const Packed kAll[][2] = {
${table.join("\n")}
};
// clang-format on

}  // namespace

std::vector<uint32_t> spirv(Shader shader, bool fused) {
  const Packed& packed = kAll[int(shader)][fused];
  std::vector<uint32_t> words(packed.words);
  const uint8_t* at = packed.bytes;
  for (uint32_t& word : words) {
    int shift = 0;
    do word |= uint32_t(*at & 0x7f) << shift, shift += 7;
    while (*at++ & 0x80);
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
