// Weights in files: where each tensor of a model lies, and reading rows of it as float32.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "../model/tensors.h"
#include "read_only_file.h"

namespace anneal::weights {

// Row-major numbers in a file.
struct StoredTensor {
  std::string name, file;
  std::string type;  // as safetensors names it: "F32", "BF16", "F16"
  int64_t offset = 0, bytes = 0;
  std::vector<int64_t> shape;
};

// A list of tensors that is not the model's: which entry (-1: something is missing), and what is wrong.
struct UnusableTensor {
  int64_t entry;
  std::string problem;
};

class WeightFiles {
 public:
  // Checks names, types, shapes and sizes against the model. Throws UnusableTensor.
  WeightFiles(const std::vector<StoredTensor>&, const model::ModelSpec&);
  // Throws FileError. Any thread.
  void open();
  // Backend's TensorReader. Any thread, once open. Throws FileError, also for a value that is no finite number.
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

}  // namespace anneal::weights
