// Which instructions this machine can run, asked of the processor and the operating system once.
#pragma once

namespace anneal::executor {

// Of x86-64; none elsewhere. avx2 has FMA with it, avx512 F, BW, DQ and VL; amx are tiles of bfloat16, whose registers
// a process must ask for.
struct Processor {
  bool avx2 = false, avxvnni = false, avx512 = false, avx512vnni = false, avx512bf16 = false, amx = false;
};
const Processor& processor();

}  // namespace anneal::executor
