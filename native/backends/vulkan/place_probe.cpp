#include "place_probe.h"

#include <cmath>
#include <cstring>

#include "products.h"
#include "staging.h"

namespace anneal::vulkan {
namespace {

constexpr int kRows = 150, kOutputs = 70, kInputs = 600;  // no multiples of a tile's
constexpr int kKinds = 5;                                 // of rows, and of weights, which stand one after the other

// Of either sign, about 1 in size; rows differ in theirs by powers of two.
float number(int kind, int i, bool is_row) {
  const uint32_t mixed = uint32_t(kind * 2 + is_row + 1) * 2654435761u ^ uint32_t(i + 1) * 2246822519u;
  const float x = float(int32_t(mixed * 3266489917u) >> 8) / float(1 << 22);
  return widened(narrowed(is_row ? std::ldexp(x, 4 * kind - 8) : x));
}

}  // namespace

bool keeps_place(const std::shared_ptr<Gpu>& gpu) {
  const GpuModel m(ModelSpec{}, {true}, gpu, nullptr, true);
  std::vector<float> rows(size_t(kRows) * kInputs), weights(size_t(kOutputs) * kInputs);
  for (size_t at = 0; at < rows.size(); at++) rows[at] = number(int(at / kInputs) % kKinds, int(at % kInputs), true);
  for (size_t at = 0; at < weights.size(); at++)
    weights[at] = number(int(at / kInputs) % kKinds, int(at % kInputs), false);
  std::vector<uint16_t> x(rows.size());
  for (size_t at = 0; at < rows.size(); at++) x[at] = narrowed(rows[at]);
  std::vector<char> packed(size_t(matrix_bytes(m.type, kOutputs, kInputs)));
  pack_rows(m.type, weights.data(), kInputs, kOutputs, kInputs, packed.data());

  Staging staging(gpu);
  Memory from, w, out;
  ProductInputs inputs;
  MemoryPlan plan(gpu, "matrices that are multiplied to try the device");
  plan.add(from, int64_t(x.size()) * 2), plan.add(w, int64_t(packed.size()));
  plan.add(out, int64_t(kRows) * kOutputs * 4, Memory::Place::readback);
  plan.add(inputs.halves, kRows * half_bytes(kInputs));
  staging.plan(plan, Memory::Place::upload);
  plan.take();
  staging.write(from, 0, x.data(), from.bytes());
  staging.write(w, 0, packed.data(), w.bytes());
  Linear linear;
  linear.n = kOutputs, linear.k = kInputs, linear.weight = w.address();
  const Linear* const all[] = {&linear};
  Commands commands(gpu);
  std::vector<float> wanted(size_t(kKinds) * kKinds);
  std::vector<std::pair<MatrixTile, int>> tried;
  for (const MatrixTile& tile : matrix_tiles(*gpu))
    for (const int count : {kRows, 1, 47}) tried.emplace_back(tile, count);
  bool is_first = true;
  for (const auto& [tile, count] : tried) {
    // The last ones: few rows begin with another kind than many.
    const uint64_t begin = from.address() + uint64_t(kRows - count) * kInputs * 2;
    record_inputs(commands, m, all, begin, count, inputs);
    record_matrix_product(commands, m, ProductKind::logits, linear, inputs,
                          {begin, w.address(), 0, out.address(), 0, 0, 0, count, kOutputs, kInputs, 0, 0, kOutputs, 0},
                          tile);
    commands.run();
    const float* found = out.mapped<float>();
    for (int r = 0; r < count; r++)
      for (int c = 0; c < kOutputs; c++) {
        const int kind = (kRows - count + r) % kKinds;
        float& first = wanted[size_t(kind) * kKinds + c % kKinds];
        if (r < kKinds && c < kKinds && is_first) {
          first = found[r * kOutputs + c];
          double sum = 0, sizes = 0;
          for (int i = 0; i < kInputs; i++) {
            const double product = double(number(r, i, true)) * double(number(c, i, false));
            sum += product, sizes += std::fabs(product);
          }
          if (!(std::fabs(double(first) - sum) <= 1e-4 * sizes)) return false;
        }
        if (std::memcmp(&found[r * kOutputs + c], &first, 4) != 0) return false;
      }
    is_first = false;
  }
  return true;
}

}  // namespace anneal::vulkan
