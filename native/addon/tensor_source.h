// Weights in files: where each tensor of a decoder lies, and reading rows of it as float32.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "../backends/backend.h"
#include "../executor/machine.h"
#include "arguments.h"

namespace anneal::addon {

class TensorSource {
 public:
  // Checks names, shapes and sizes against the decoder; files are opened by open(). Throws Failure.
  TensorSource(const Argument& tensors, const model::ModelSpec& spec);
  // Throws FileError. Any thread.
  void open();
  // Backend's TensorReader. Any thread. Throws FileError, also for a value that is no finite number.
  void read(const std::string& name, int64_t row0, int64_t rows, float* dst) const;

 private:
  enum class Type : uint8_t { f32, bf16, f16 };
  struct Tensor {
    std::string path;
    std::shared_ptr<executor::ReadOnlyFile> file;
    int64_t offset, rows, cols;
    Type type;
  };
  std::unordered_map<std::string, Tensor> tensors_;
};

}  // namespace anneal::addon
