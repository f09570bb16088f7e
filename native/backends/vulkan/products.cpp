#include "products.h"

#include <bit>
#include <iterator>

namespace anneal::vulkan {
namespace {

// Rows of codes that an invocation has at once.
constexpr int kCodeRows = 8;
// Rows that share weights in shaders/product_few.comp, at most, in 32 KiB of shared memory. With no more of them, large
// tiles (shaders/product.comp) would be padding, and fewer workgroups.
constexpr int kFewRows = 64;
// Of a large GPU: work is divided so that all have some.
constexpr int kMultiprocessors = 128;
// Rows are divided until then. So many take hardly longer than one: it is the chain's latency that takes the time.
constexpr int kMinSharing = 8;
// Up to here weights are read once or twice by invocations of few rows; tiles, which read them once, are mostly
// padding.
constexpr int kTiledRows = 16;
// Turns of loops for an element, at most: of shaders/product_codes.comp with 8 rows.
constexpr int kTurnsOfCodes = 6;
// Of a tile of codes. Where rows do not fill a large one, there are more of the small ones to keep a device busy.
constexpr int kTile = 64, kSmallTile = 32, kTileBytes = 24 << 10;  // of shared memory
// On cooperative matrices, as the shaders have them.
constexpr int kDepth = 32;
constexpr MatrixTile kMatrixTiles[] = {{128, 128}, {128, 64}, {64, 64}, {16, 32, 2}, {16, 32, 6}};
constexpr int kSmallMatrixTile = 2;
// Workgroups that keep a device busy: where a tile has fewer, the next one is taken.
constexpr int kBusyMatrixGroups = 96, kBusySmallGroups = 64;

// What an output costs by a tile of kTiles, beside the largest: the smaller it is, the more often shared memory is read
// for it.
constexpr double kTileCosts[] = {1, 1.1, 1.3, 2, 3, 8};
// And where a multiprocessor has one workgroup, which waits for memory alone.
constexpr double kAloneCost = 1.5;
// What a weight's transpose is read as, and about how many bytes of it there are at once.
constexpr TensorFormat kTransposedFormat = TensorFormat::q8_0;
constexpr int64_t kTransposedBytes = int64_t(32) << 20;

constexpr int kMaxEmulatedRows = 4;  // of an invocation where loops end, whose turns kTurnsOfTile counts

bool is_fast(const GpuModel& m, const Linear& w) { return m.fast && !w.takes_codes(); }

// Granules of a row of halves.
int half_granules(int k) { return int(round_up(k, kDepth)) / 8 + 2; }

int64_t groups_of(MatrixTile tile, int rows, int n) {
  return int64_t((rows + tile.rows - 1) / tile.rows) * ((n + tile.cols - 1) / tile.cols);
}

std::vector<uint32_t> matrix_constants(const Linear& w, ProductKind kind, int ahead = 0) {
  std::vector<uint32_t> constants = w.constants(uint32_t(kind), uint32_t(ahead));
  if (!w.quantized()) constants.insert(constants.end(), {0, 1, 0, 0});
  return constants;
}

// As the processor's codes_gradients() has it.
bool codes_gradients(const GpuModel& m, const Linear& w) { return w.quantized() && m.type.bf16 && !m.fast; }

// Outputs that are transposed at once.
int transposed_outputs(const Linear& w) {
  const int64_t each = Records(kTransposedFormat).bytes_of(w.k, kGroup);
  return int(std::min<int64_t>(round_up(w.n, kGroup), std::max<int64_t>(1, kTransposedBytes / each) * kGroup));
}

// Codes of rows x of k elements of the compute type, ldx granules apart.
void record_codes(Commands& commands, const GpuModel& m, uint64_t x, int rows, int k, int ldx, const Memory& codes) {
  const struct {
    uint64_t x, codes;
    int32_t rows, k, ldx, padding;
  } parameters{x, codes.address(), rows, k, ldx, 0};
  commands.dispatch(m.pipeline(Shader::kActivationCodes), parameters, (k + 64 * kGroup - 1) / (64 * kGroup), rows);
}

void record_halves(Commands& commands, const GpuModel& m, uint64_t x, int rows, int k, const Memory& halves) {
  const struct {
    uint64_t x, to;
    int32_t k, ldx;
  } parameters{x, halves.address(), k, m.type.granules(k)};
  commands.dispatch(m.gpu->matrix_pipeline(Shader::kHalfRows, {0, 0, 0, 0, 0, 0}), parameters, rows);
}

// The one for so many rows of k, where a device's loops end by turns.
CodeKernel code_kernel(const Gpu& gpu, int rows, int k) {
  CodeKernel kernel = code_kernel(gpu, rows);
  if (!kernel.tile && !gpu.takes_turns(int64_t(k) * kTurnsOfCodes)) kernel.tile = kSmallTile;
  return kernel;
}

}  // namespace

// As shaders/staged_chains.glsl divides rows and k.
int64_t turns_of_few(ElementType type, int k, int rows) {
  const int summing = rows < 4 ? rows : rows < 32 ? 4 : 8, each = rows / summing;
  const int granules = type.granules(k), depth = rows <= 16 ? 32 : 512 / rows;
  const int of_granule = 2 + each * (type.granule() / 4 + 2), of_stretch = 128, of_output = 1024;
  return int64_t(granules) * of_granule + (granules / depth + 1) * of_stretch + each * of_output;
}

int few_rows_at_once(const Gpu& gpu, ElementType type, int n, int k, int rows) {
  int at_once = int(std::bit_ceil(uint32_t(std::min(rows, kFewRows))));
  const auto groups = [&] { return int64_t(n + kPanel - 1) / kPanel * ((rows + at_once - 1) / at_once); };
  while (at_once > kMinSharing && groups() < kMultiprocessors) at_once /= 2;
  while (at_once > 1 && !gpu.takes_turns(turns_of_few(type, k, at_once))) at_once /= 2;
  return at_once;
}

Tile tile_for(const Gpu& gpu, int64_t rows, int64_t cols) {
  const Tile* best = nullptr;
  double least = 0;
  for (size_t i = 0; i < std::size(kTiles); i++) {
    const Tile& tile = kTiles[i];
    if (gpu.ends_loops() && tile.rows > kMaxEmulatedRows) continue;
    const int64_t groups = tile.groups_of_rows(rows) * tile.groups_of_cols(cols);
    const int64_t turns = (groups + kMultiprocessors - 1) / kMultiprocessors;
    const double cost = double(turns) * tile.rows * tile.cols * kTileCosts[i] * (turns == 1 ? kAloneCost : 1);
    if (!best || cost < least) best = &tile, least = cost;
  }
  return *best;
}

CodeKernel code_kernel(const Gpu& gpu, int rows) {
  CodeKernel kernel{.byte_products = gpu.facts().byte_products == ByteProducts::fast};
  if (rows > kTiledRows) kernel.tile = rows > kSmallTile && gpu.shared_memory() >= kTileBytes ? kTile : kSmallTile;
  return kernel;
}

std::vector<MatrixTile> matrix_tiles(const Gpu& gpu) {
  // Two steps of rows and weights, each with a granule that keeps them on different banks.
  constexpr int kRowBytes = 2 * (kDepth / 8 + 1) * 16;
  std::vector<MatrixTile> tiles;
  for (const MatrixTile& tile : kMatrixTiles)
    if (tile.is_few() || (tile.rows + tile.cols) * kRowBytes <= gpu.shared_memory()) tiles.push_back(tile);
  return tiles;
}

MatrixTile matrix_tile(const Gpu& gpu, int rows, int n) {
  const std::vector<MatrixTile> tiles = matrix_tiles(gpu);
  for (const MatrixTile& tile : tiles)
    if ((tile.is_few() || rows > tiles.back().rows) &&
        groups_of(tile, rows, n) >= (tile.rows == 64 ? kBusySmallGroups : kBusyMatrixGroups))
      return tile;
  return tiles.back();
}

int64_t back_code_bytes(const GpuModel& m, const Linear& w) {
  return codes_gradients(m, w) ? code_bytes(transposed_outputs(w)) : 0;
}
int64_t transposed_bytes(const GpuModel& m, const Linear& w) {
  return codes_gradients(m, w) ? Records(kTransposedFormat).bytes_of(w.k, transposed_outputs(w)) : 0;
}

int64_t half_bytes(int k) { return int64_t(half_granules(k)) * 16; }

void record_inputs(Commands& commands, const GpuModel& m, std::span<const Linear* const> weights, uint64_t x, int rows,
                   const ProductInputs& inputs) {
  const Linear *codes = nullptr, *halves = nullptr;
  for (const Linear* w : weights) {
    if (w->takes_codes()) codes = w;
    if (is_fast(m, *w)) halves = w;
  }
  if (codes) record_codes(commands, m, x, rows, codes->k, m.type.granules(codes->k), inputs.codes);
  if (halves) record_halves(commands, m, x, rows, halves->k, inputs.halves);
  if (codes || halves) commands.barrier();
}

void record_product(Commands& commands, const GpuModel& m, ProductKind product, const Linear& w,
                    const ProductInputs& inputs, ProductParameters p) {
  if (w.takes_codes()) {
    record_code_product(commands, m, product, w, inputs.codes, p, code_kernel(*m.gpu, p.rows, p.k));
  } else if (is_fast(m, w)) {
    record_matrix_product(commands, m, product, w, inputs, p, matrix_tile(*m.gpu, p.rows, p.n));
  } else if (p.rows <= kFewRows || !m.gpu->takes_turns(int64_t(p.k) * kTurnsOfTile)) {
    record_few(commands, m, product, w, p, few_rows_at_once(*m.gpu, m.type, p.n, p.k, p.rows));
  } else {
    record_tiled_product(commands, m, product, w, p, tile_for(*m.gpu, p.rows, p.n));
  }
}

void record_tiled_product(Commands& commands, const GpuModel& m, ProductKind product, const Linear& w,
                          const ProductParameters& p, const Tile& tile) {
  commands.dispatch(m.pipeline(Shader::kProduct, w.constants(uint32_t(product), tile.constant())), p,
                    tile.groups_of_cols(p.n), tile.groups_of_rows(p.rows));
}

void record_few(Commands& commands, const GpuModel& m, ProductKind product, const Linear& w, const ProductParameters& p,
                int at_once) {
  commands.dispatch(m.pipeline(Shader::kProductFew, w.constants(uint32_t(product), uint32_t(at_once))), p,
                    (p.n + kPanel - 1) / kPanel, (p.rows + at_once - 1) / at_once);
}

void record_matrix_product(Commands& commands, const GpuModel& m, ProductKind product, const Linear& w,
                           const ProductInputs& inputs, ProductParameters p, MatrixTile tile) {
  p.x = inputs.halves.address(), p.ldx = half_granules(w.k);
  const int64_t down = (p.rows + tile.rows - 1) / tile.rows, across = (p.n + tile.cols - 1) / tile.cols;
  if (tile.is_few()) {
    commands.dispatch(m.gpu->matrix_pipeline(Shader::kProductFastFew, matrix_constants(w, product, tile.ahead)), p,
                      down, across);
  } else {
    commands.dispatch(m.gpu->matrix_pipeline(Shader::kProductFast, matrix_constants(w, product),
                                             {uint32_t(tile.rows), uint32_t(tile.cols)}),
                      p, down, across);
  }
}

void record_code_product(Commands& commands, const GpuModel& m, ProductKind product, const Linear& w,
                         const Memory& codes, ProductParameters p, const CodeKernel& kernel) {
  p.x = codes.address();
  const int rows = kernel.tile ? kernel.tile : int(std::bit_ceil(uint32_t(std::min(p.rows, kCodeRows))));
  const int cols = kernel.tile ? kernel.tile : 64;
  std::vector<uint32_t> constants = w.constants(uint32_t(product), uint32_t(rows));
  constants.push_back(kernel.byte_products);
  if (kernel.tile) constants.push_back(uint32_t(kernel.tile * kernel.tile / 16));
  commands.dispatch(m.pipeline(kernel.tile ? Shader::kProductCodesTiled : Shader::kProductCodes, constants), p,
                    (p.n + cols - 1) / cols, (p.rows + rows - 1) / rows);
}

void record_transposed(Commands& commands, const GpuModel& m, const Linear& w, TransposedParameters p) {
  record_transposed(commands, m, w, p, tile_for(*m.gpu, p.rows, p.k));
}

void record_transposed(Commands& commands, const GpuModel& m, const Linear& w, TransposedParameters p,
                       const Tile& tile) {
  const int n = p.n, at_once = int(std::min<int64_t>(n, m.gpu->arithmetic().max_turns / kTurnsOfTile / 32 * 32));
  for (int first = 0; first < n; first += at_once) {
    if (first > 0) commands.barrier(), p.accumulate = true;
    p.first = first, p.n = std::min(n, first + at_once);
    commands.dispatch(m.pipeline(Shader::kProductTransposed, w.constants(0, tile.constant())), p,
                      tile.groups_of_cols(p.k), tile.groups_of_rows(p.rows));
  }
}

void record_token_sum(Commands& commands, const GpuModel& m, const TokenSumParameters& p) {
  record_token_sum(commands, m, p, tile_for(*m.gpu, p.m, p.n));
}

void record_token_sum(Commands& commands, const GpuModel& m, const TokenSumParameters& p, const Tile& tile) {
  commands.dispatch(m.pipeline(Shader::kTokenSum, {0, tile.constant()}), p, tile.groups_of_cols(p.n),
                    tile.groups_of_rows(p.m));
}

void record_back_product(Commands& commands, const GpuModel& m, const Linear& w, uint64_t dy, int rows, uint64_t to,
                         bool accumulate, const BackInputs& inputs) {
  if (codes_gradients(m, w))
    return record_code_back_product(commands, m, w, dy, rows, to, accumulate, inputs, transposed_outputs(w));
  if (!m.fast)
    return record_transposed(commands, m, w,
                             {dy, w.weight, to, rows, 0, w.n, w.k, m.type.granules(w.n), w.k, accumulate});
  record_halves(commands, m, dy, rows, w.n, inputs.halves);
  commands.barrier();
  // The chains are as long in all tiles: there the smallest of many rows is that of few ones, too.
  MatrixTile tile = matrix_tile(*m.gpu, rows, w.k);
  if (tile.is_few()) tile = kMatrixTiles[kSmallMatrixTile];
  record_matrix_back_product(commands, m, w, inputs.halves, rows, to, accumulate, tile);
}

void record_code_back_product(Commands& commands, const GpuModel& m, const Linear& w, uint64_t dy, int rows,
                              uint64_t to, bool accumulate, const BackInputs& inputs, int at_once) {
  for (int first = 0; first < w.n; first += at_once) {
    const int count = std::min(at_once, w.n - first);
    if (first > 0) commands.barrier();
    record_codes(commands, m, dy + uint64_t(first) * m.type.bytes(), rows, count, m.type.granules(w.n), inputs.codes);
    const struct {
      uint64_t w, to;
      int32_t first, count, k, padding;
    } parameters{w.weight, inputs.transposed.address(), first, count, w.k, 0};
    commands.dispatch(m.pipeline(Shader::kTransposeCodes, w.constants()), parameters, (w.k / 4 + 63) / 64,
                      (count + kGroup - 1) / kGroup);
    commands.barrier();
    Linear transposed;
    transposed.n = w.k, transposed.k = int(round_up(count, kGroup));
    transposed.weight = inputs.transposed.address(), transposed.format = kTransposedFormat;
    record_code_product(commands, m, accumulate || first > 0 ? ProductKind::residual : ProductKind::logits, transposed,
                        inputs.codes,
                        {0, transposed.weight, 0, to, to, 0, 0, rows, transposed.n, transposed.k, 0, 0, w.k, 0},
                        code_kernel(*m.gpu, rows, transposed.k));
  }
}

void record_matrix_back_product(Commands& commands, const GpuModel& m, const Linear& w, const Memory& halves, int rows,
                                uint64_t to, bool accumulate, MatrixTile tile) {
  const struct {
    uint64_t x, w, to;
    int32_t rows, n, k, ldx, ldo, accumulate;
  } parameters{halves.address(), w.weight, to, rows, w.n, w.k, half_granules(w.n), w.k, accumulate};
  commands.dispatch(m.gpu->matrix_pipeline(Shader::kProductTransposedFast, matrix_constants(w, ProductKind::logits),
                                           {uint32_t(tile.rows), uint32_t(tile.cols)}),
                    parameters, (rows + tile.rows - 1) / tile.rows, (w.k + tile.cols - 1) / tile.cols);
}

}  // namespace anneal::vulkan
