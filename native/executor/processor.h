// Which instructions this machine can run, asked of the processor and the operating system once.
#pragma once

namespace anneal::executor {

struct Processor {
  // Of x86-64: avx2 has FMA and F16C with it, avx512 F, BW, DQ and VL; amx are tiles of bfloat16, whose registers a process must
  // ask for.
  bool avx2 = false, avxvnni = false, avx512 = false, avx512vnni = false, avx512bf16 = false, amx = false;
  // Of 64-bit Arm: products of bytes that add up four in a lane, and matrices of them.
  bool dotprod = false, i8mm = false;
};
const Processor& processor();

}  // namespace anneal::executor
