// Matrices of the integer formats as compressed-tensors, GPTQ and AWQ store them: codes in 32-bit words, scales and
// zero points in tensors of their own. They are taken as they are, group by group.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "../model/tensor_format.h"
#include "read_only_file.h"

namespace anneal::weights {

// Words of codes (the first in the lowest bits), for n outputs of k inputs in groups:
//   compressed_tensors  [n][k / codes of a word], a word along k; scales [n][groups]; zero points, where there are any,
//                       [n / codes of a word rounded up][groups] along n, or [n][groups] signed bytes
//   gptq, gptq_v2       [k / codes of a word][n], a word along k; scales [groups][n]; zero points
//                       [groups][n / codes of a word] along n, in gptq less 1: the whole word less 1 in each of its
//                       codes
//   awq                 [k][n / codes of a word], a word along n; scales and zero points as in gptq_v2; the codes of a
//                       word are those of outputs 0 2 4 6 1 3 5 7
enum class Packing : uint8_t { compressed_tensors, gptq, gptq_v2, awq };

struct TensorPart {
  std::string path, type;  // "I32", "I8", "F32", "F16", "BF16"
  int64_t offset = 0, bytes = 0;
  std::shared_ptr<ReadOnlyFile> file;
};

struct PackedMatrix {
  model::TensorFormat format = model::TensorFormat::int4_32;
  Packing packing = Packing::compressed_tensors;
  int64_t n = 0, k = 0;
  int64_t group = 0;                // k that share a scale: the format's or a multiple of it
  TensorPart codes, scales, zeros;  // zeros.path empty: half of the codes' range

  // What does not fit: "" or what is wrong.
  std::string problem() const;
  // Rows of blocks, see quantization/blocks.h. Throws FileError.
  void blocks(int64_t row0, int64_t rows, uint8_t* to) const;
};

}  // namespace anneal::weights
