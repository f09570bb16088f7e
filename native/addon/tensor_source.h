// Weights in files: where each tensor of a decoder lies, and reading rows of it as float32.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "../backends/cpu/decoder.h"
#include "../executor/machine.h"
#include "arguments.h"

namespace anneal::addon {

// The tensors of a decoder in Hugging Face's names; a vector has cols 0 and `rows` elements.
struct WeightShape {
  std::string name;
  int64_t rows, cols;
};
std::vector<WeightShape> weight_shapes(const DecoderConfig& config);

class TensorSource {
 public:
  // Checks names, shapes and sizes against the decoder; files are opened by open(). Throws Failure.
  TensorSource(const Argument& tensors, const DecoderConfig& config);
  // Throws FileError. Any thread.
  void open();
  // Decoder's TensorReader. Any thread. Throws FileError, also for a value that is no finite number.
  void read(const std::string& name, int64_t row0, int64_t rows, float* dst) const;

 private:
  enum class Type : uint8_t { f32, bf16, f16 };
  struct Tensor {
    std::string path;
    std::shared_ptr<ReadOnlyFile> file;
    int64_t offset, rows, cols;
    Type type;
  };
  std::unordered_map<std::string, Tensor> tensors_;
};

}  // namespace anneal::addon
