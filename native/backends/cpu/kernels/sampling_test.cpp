// The sampler's passes over a row, against a loop over its entries.
#include "kernels_fixture.h"

namespace anneal::cpu::test {
namespace {

void test_passes(int n) {
  const int blocks = (n + kLogitBlock - 1) / kLogitBlock;
  Floats x = normals(n + 9, 2);
  for (int i = 0; i < n; i += 5) x[i] = std::round(x[i]);  // ties
  for (int i = n; i < n + 9; i++) x[i] = 1e30f;            // padding must not matter
  float top = x[0];
  for (int i = 0; i < n; i++) top = std::fmax(top, x[i]);
  std::vector<uint32_t> bits((n + 31) / 32);
  for (size_t i = 0; i < bits.size(); i++) bits[i] = uint32_t(i + 1) * 2654435761u;
  const Probabilities how{top, 0.8f, -4, 0.05f};
  const float limits[kLimits] = {0.06f, 0.1f, 0.4f, 1};
  const std::string what = "sampling n=" + std::to_string(n);
  const Floats got = same_everywhere(DType::f32, what, [&](const Kernels& k) {
    Floats maxima(size_t(blocks) * kLanes), p(n, -1), out;
    std::vector<double> masses(blocks);
    std::vector<int32_t> ids(n);
    double sums[kLimits], below;
    auto add = [&](auto from, int count) { out.insert(out.end(), from, from + count); };
    expect(!k.lane_maxima(x.data(), n, maxima.data()), what + ": no NaN");
    k.probabilities(x.data(), n, maxima.data(), how, p.data(), masses.data());
    for (int i = 0; i < n; i++)
      if (masses[i / kLogitBlock] == 0) p[i] = 0;
    add(p.begin(), n);
    k.sums_below(p.data(), n, masses.data(), limits, sums);
    add(sums, kLimits);
    const int between = k.ids_between(p.data(), n, masses.data(), 0.1f, 0.4f, ids.data(), &below);
    out.push_back(float(below)), out.push_back(float(between));
    add(ids.begin(), between);
    const int least = k.ids_at_least(x.data(), n, maxima.data(), 1, ids.data());
    out.push_back(float(least));
    add(ids.begin(), least);
    k.drop_below(p.data(), n, 0.4f, masses.data());
    double mass = 0;
    for (double m : masses) mass += m;
    out.push_back(float(mass));
    k.keep_permitted(x.data(), n, bits.data(), p.data());
    add(p.begin(), n);
    Floats bad(x.begin(), x.begin() + n);
    bad[n / 2] = NAN;
    expect(k.lane_maxima(bad.data(), n, maxima.data()), what + ": NaN is seen");
    return out;
  });

  std::vector<double> want;
  std::vector<double> between, least, kept;
  double sums[kLimits] = {}, below = 0, mass = 0;
  for (int i = 0; i < n; i++) {
    const double t = (double(x[i]) - top) / double(0.8f), e = t < -4 ? 0 : std::exp(t), p = e < double(0.05f) ? 0 : e;
    want.push_back(p);
    for (int j = 0; j < kLimits; j++) sums[j] += p < double(limits[j]) ? p : 0;
    if (p < double(0.1f))
      below += p;
    else if (p < double(0.4f))
      between.push_back(i);
    if (p >= double(0.4f)) mass += p;
    if (x[i] >= 1) least.push_back(i);
    kept.push_back(bits[i / 32] >> (i % 32) & 1 ? double(x[i]) : -INFINITY);
  }
  want.insert(want.end(), sums, sums + kLimits);
  want.push_back(below), want.push_back(double(between.size()));
  want.insert(want.end(), between.begin(), between.end());
  want.push_back(double(least.size()));
  want.insert(want.end(), least.begin(), least.end());
  want.push_back(mass);
  expect(got.size() == want.size() + kept.size(), what + ": as many ids as entries in range");
  near(what, Floats(got.begin(), got.begin() + want.size()), want, 2e-6, 1);
  bool same = true;
  for (int i = 0; i < n; i++) same &= got[want.size() + i] == float(kept[i]);
  expect(same, what + ": permitted columns stay, others are masked");
}

// What is below a power of 2 is rounded as additions of it round, and then sums are exact.
void test_units(int n) {
  const std::string what = "probabilities in units, n=" + std::to_string(n);
  const Floats x = normals(n, 4);
  const float top = *std::max_element(x.begin(), x.end());
  constexpr float coarse = 0x1p-8f;
  for (const Kernels* k : sets(DType::f32)) {
    const int blocks = (n + kLogitBlock - 1) / kLogitBlock;
    Floats maxima(size_t(blocks) * kLanes), plain(n, 0), p(n, 0);
    std::vector<double> masses(blocks), sums(blocks);
    k->lane_maxima(x.data(), n, maxima.data());
    k->probabilities(x.data(), n, maxima.data(), {top, 0.8f, -INFINITY, 0}, plain.data(), masses.data());
    k->probabilities(x.data(), n, maxima.data(), {top, 0.8f, -INFINITY, 0, coarse}, p.data(), masses.data());
    bool rounded = true, whole = true;
    for (int i = 0; i < n; i++) {
      const float wanted = plain[i] < coarse ? (plain[i] + coarse) - coarse : plain[i];
      const double units = double(p[i]) * 0x1p31;
      rounded &= p[i] == wanted, whole &= units == std::floor(units);
      sums[i / kLogitBlock] += p[i];
    }
    expect(rounded && whole, what + ": they are whole, and nearest");
    expect(masses == sums, what + ": masses are exact");
  }
}

}  // namespace

void test_sampling() {
  for (int n : {1, 40, 513, 5003}) test_units(n);
  for (int n : {1, 16, 40, 511, 512, 513, 5003}) test_passes(n);
}

}  // namespace anneal::cpu::test
