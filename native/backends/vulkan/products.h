// Products with weights: what their inputs are turned into before, and which shader computes them.
#pragma once
#include <span>

#include "commands.h"
#include "gpu_model.h"

namespace anneal::vulkan {

// What becomes of outputs, as shaders/product_output.glsl has it.
enum class ProductKind : uint32_t { logits, rounded, residual };

// Outputs of an invocation of tiles (shaders/tiles.glsl), of which a workgroup has 16 by 16.
struct Tile {
  int rows, cols;
  int64_t groups_of_rows(int64_t n) const { return (n + 16 * rows - 1) / (16 * rows); }
  int64_t groups_of_cols(int64_t n) const { return (n + 16 * cols - 1) / (16 * cols); }
  uint32_t constant() const { return uint32_t(rows * 16 + cols); }
};
// All that there are; every one has the same bits.
constexpr Tile kTiles[] = {{8, 8}, {4, 8}, {4, 4}, {2, 4}, {1, 4}, {1, 1}};
// The one that is done first for so many outputs.
Tile tile_for(const Gpu&, int64_t rows, int64_t cols);
// Turns of loops for an element of the chains of tiles, at most (shaders/tiles.glsl).
constexpr int kTurnsOfTile = 12;

// As shaders/product_output.glsl has them.
struct ProductParameters {
  uint64_t x, w, bias, out, from, adapters, z;
  int32_t rows, n, k, ldx, ldz, ldo, projection;
  float scale = 1, inverse_cap = 0, cap = 0;
};

// Rows of an input as products take it besides the compute type: as 8-bit codes with quantised weights, as float16 on
// cooperative matrices.
struct ProductInputs {
  Memory codes, halves;
};

// What products of backward work in: gradients as codes or as float16, and a weight's transpose as codes.
struct BackInputs {
  const Memory &halves, &codes, &transposed;
};
// Bytes of these for a weight: of the codes of a row, and of the transpose, both of the outputs that are taken at once;
// 0: its products take none.
int64_t back_code_bytes(const GpuModel&, const Linear&);
int64_t transposed_bytes(const GpuModel&, const Linear&);

// How products of codes are computed; all have the same bits.
struct CodeKernel {
  int tile = 0;  // rows, and as many outputs, of a workgroup; 0: an invocation has an output of up to 8 rows
  bool byte_products = false;  // four at once
};

// A tile of rows and outputs of a workgroup on cooperative matrices. One of few rows has slices of k side by side, and
// so many steps of each on their way.
struct MatrixTile {
  int rows, cols, ahead = 0;
  bool is_few() const { return ahead > 0; }
};
// All that a device's shared memory has room for, the largest first.
std::vector<MatrixTile> matrix_tiles(const Gpu&);
MatrixTile matrix_tile(const Gpu&, int rows, int n);

// Turns of loops of shaders/product_few.comp, where a workgroup has so many rows, at most.
int64_t turns_of_few(ElementType, int k, int rows);
// How many rows a workgroup of it has, of so many in all with n outputs; a power of two.
int few_rows_at_once(const Gpu&, ElementType, int n, int k, int rows);
CodeKernel code_kernel(const Gpu&, int rows);  // the one for so many rows on a device

// Bytes of a row of k elements as float16 (shaders/half_rows.comp).
int64_t half_bytes(int k);

// Of rows x of the compute type, all that products of these weights take; with a barrier behind it.
void record_inputs(Commands&, const GpuModel&, std::span<const Linear* const>, uint64_t x, int rows,
                   const ProductInputs&);
// `p`.x: rows of the compute type, whose inputs have been recorded.
void record_product(Commands&, const GpuModel&, ProductKind, const Linear&, const ProductInputs&, ProductParameters p);
// On shaders/product_few.comp, of weights that take no codes.
void record_few(Commands&, const GpuModel&, ProductKind, const Linear&, const ProductParameters& p, int at_once);
// Of quantised weights that take codes.
void record_code_product(Commands&, const GpuModel&, ProductKind, const Linear&, const Memory& codes,
                         ProductParameters p, const CodeKernel&);
// On cooperative matrices; all tiles have the same bits. `p`.x: rows of the compute type.
void record_matrix_product(Commands&, const GpuModel&, ProductKind, const Linear&, const ProductInputs&,
                           ProductParameters p, MatrixTile);
// to[rows][k] (+)= x[rows][n] w[n][k], float32: x of the compute type, and w, which lies as this one.
struct TransposedParameters {
  uint64_t x, w, to;
  int32_t rows, first, n, k, ldx, ldo, accumulate, padding = 0;
};
void record_transposed(Commands&, const GpuModel&, const Linear&, TransposedParameters);
void record_transposed(Commands&, const GpuModel&, const Linear&, TransposedParameters, const Tile&);
// Products of weights of the compute type, or of the values of quantised ones, by tiles.
void record_tiled_product(Commands&, const GpuModel&, ProductKind, const Linear&, const ProductParameters&,
                          const Tile&);
// to[m][n] += sum over tokens [first, first + tokens) of left[token][m] right[token][n], float32; left and right of the
// compute type, rows of whole granules.
struct TokenSumParameters {
  uint64_t left, right, to;
  int32_t first, tokens, m, n, ldl, ldr, ldo, padding = 0;
};
void record_token_sum(Commands&, const GpuModel&, const TokenSumParameters&);
void record_token_sum(Commands&, const GpuModel&, const TokenSumParameters&, const Tile&);
// to[rows][k] (+)= dy[rows][n] W[n][k], float32; dy of the compute type. Of quantised weights by codes of both, where
// the processor's backward takes codes.
void record_back_product(Commands&, const GpuModel&, const Linear&, uint64_t dy, int rows, uint64_t to, bool accumulate,
                         const BackInputs&);
// The same by codes, of so many outputs at once, a multiple of 32, which change no bits.
void record_code_back_product(Commands&, const GpuModel&, const Linear&, uint64_t dy, int rows, uint64_t to,
                              bool accumulate, const BackInputs&, int at_once);
// The same of rows that are halves, on cooperative matrices.
void record_matrix_back_product(Commands&, const GpuModel&, const Linear&, const Memory& halves, int rows, uint64_t to,
                                bool accumulate, MatrixTile);

}  // namespace anneal::vulkan
