// Weights in files: where each tensor of a model lies, and reading rows of it as float32 or as
// they are stored.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "../model/tensors.h"
#include "packed_matrix.h"
#include "read_only_file.h"

namespace anneal::weights {

// Heads in groups of as many, where the file has the first of every group before the second of any.
struct TiledHeads {
  int64_t heads, groups, width;  // rows, columns or elements of one
  int64_t first;                 // what stands before them, in the model's order
  bool columns;                  // of a matrix; else rows
  // Where in the file the model's row, column or element is.
  int64_t in_file(int64_t index) const;
};

// Number (row, column) is the one at first + row * `row` + column * `column` of those that are stored.
struct Strides {
  int64_t first, row, column;
};

// Row-major numbers in a file.
struct StoredTensor {
  std::string name, file;
  // "F32", "BF16", "F16", or of a quantised one the format: "Q8_0", "INT4_128" (packed)
  std::string type;
  int64_t offset = 0, bytes = 0;
  std::vector<int64_t> shape;
  // Heads whose rotary halves are interleaved: row 2i of a head in the file is its row i, row 2i + 1 its row i + half.
  // 0: none.
  int64_t interleaved_heads = 0;
  std::optional<TiledHeads> tiled_heads = std::nullopt;
  // Of a vector: the file has -exp(x) for every x.
  bool negated_exp = false;
  // Of floats that do not lie row by row: `bytes` are those of all among which they are.
  std::optional<Strides> strides = std::nullopt;
  // Of an integer format: file, offset and bytes are those of the codes.
  struct Packed {
    Packing packing;
    int64_t group;
    TensorPart scales, zeros;
  };
  std::optional<Packed> packed = std::nullopt;
  // Of mxfp4 whose codes and scales lie apart, as GPT-OSS's folders have them: `offset` and `bytes` are those of the
  // codes, two neighbours to a byte. Row i of the matrix is row first + i * step of what is stored.
  struct Apart {
    TensorPart scales;
    int64_t first, step;
  };
  std::optional<Apart> apart = std::nullopt;
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
  // Backend's TensorReader. Any thread, once open. They throw FileError, also for a value that is no finite number.
  void read(const std::string& name, int64_t row0, int64_t rows, float* dst) const;
  model::TensorFormat stored(const std::string& name) const;
  void blocks(const std::string& name, int64_t row0, int64_t rows, uint8_t* dst) const;

 private:
  enum class Type : uint8_t { f32, bf16, f16, quantized };
  struct Tensor {
    std::string path;
    std::shared_ptr<ReadOnlyFile> file;
    int64_t offset, rows, cols;
    Type type;
    model::TensorFormat format;  // of a quantised one
    int64_t interleaved_heads;
    std::optional<TiledHeads> tiled_rows, tiled_columns;  // of a vector, of one row: columns
    bool negated_exp;
    std::optional<PackedMatrix> packed;
    std::optional<Strides> strides;
    std::optional<StoredTensor::Apart> apart;
    int64_t bytes;
    int64_t row_bytes() const;
  };
  const Tensor& tensor(const std::string& name, int64_t row0, int64_t rows) const;
  // f(first row in the file, rows, first of them in the answer) for runs of neighbours.
  template <class F> static void each_run(const Tensor&, int64_t row0, int64_t rows, F&& f);
  static void apart_blocks(const Tensor&, int64_t row0, int64_t rows, uint8_t* dst);
  // With columns as they are in the file.
  void stored_blocks(const Tensor&, const std::string& name, int64_t row0, int64_t rows, uint8_t* dst) const;
  static void read_floats(const Tensor&, const std::string& name, int64_t row0, int64_t rows, float* dst);
  // Of a tensor with strides, in the type that is stored.
  template <class T> void gather(const Tensor&, int64_t row0, int64_t rows, T* dst) const;
  std::shared_ptr<const std::vector<uint8_t>> region_of(const Tensor&) const;

  // The bytes that tensors with strides were last read from: several lie among the same, and their rows are everywhere
  // in them.
  struct Region {
    std::mutex lock;
    std::string path;
    int64_t offset = 0;
    std::shared_ptr<const std::vector<uint8_t>> bytes;
  };
  std::unique_ptr<Region> region_ = std::make_unique<Region>();
  std::unordered_map<std::string, Tensor> tensors_;
};

}  // namespace anneal::weights
