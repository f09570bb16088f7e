// A page of a layer and a key-value head: 64 keys as [head_dim / kGranule][64] granules over the elements of a head, then
// their values as [64 / kGranule][head_dim] granules over the keys. Of a cache of 8 bits (cpu/kernels/kv_page.h): codes,
// 16 to a granule, of keys as [head_dim / 16][64] and of values as [64][head_dim / 16], which one token writes alone; then
// the scales of the keys [64], and those of the values [64].
#include "counts.glsl"
layout(constant_id = 5) const int kCoded = 0;

const int kPage = 64;

int code_granules(int head_dim) { return round_up(head_dim, 16) / 16 * kPage; }
int key_granules(int head_dim) { return round_up(head_dim, kGranule) / kGranule * kPage; }
int page_granules(int head_dim) {
  return kCoded != 0 ? 2 * code_granules(head_dim) + 2 * kPage / 4 : key_granules(head_dim) + kPage / kGranule * head_dim;
}

// A page, of all key-value heads, and the gradients of its keys or values [kv_heads][64][head_dim]: by address, since pages
// may be more than 32 bits count.
uvec2 behind(uvec2 pages, int page, int bytes_of_page) { return plus(pages, times(uint(page), uint(bytes_of_page))); }
Granules page_of(Granules pages, int page, int kv_heads, int head_dim) {
  return Granules(behind(uvec2(pages), page, kv_heads * page_granules(head_dim) * 16));
}
Floats gradients_of(Floats pages, int page, int kv_heads, int head_dim) {
  return Floats(behind(uvec2(pages), page, kv_heads * kPage * head_dim * 4));
}

float code_of(uint word, int byte) { return float(bitfieldExtract(int(word), byte * 8, 8)); }

// Elements of a page that begins at granule `at`, of T: codes are exact in it.
uvec4 key_granule(Granules pages, int at, int head_dim, int granule, int key) {
  if (kCoded == 0) return pages.at[at + granule * kPage + key];
  const int first = granule * kGranule;
  const uvec4 codes = pages.at[at + first / 16 * kPage + key];
  uvec4 found;
  for (int i = 0; i < 4; i++) {
    if (kBf16) {
      const uint word = codes[first % 16 / 4 + i / 2];
      found[i] = narrowed(code_of(word, i % 2 * 2)) | narrowed(code_of(word, i % 2 * 2 + 1)) << 16;
    } else {
      found[i] = as_bits(code_of(codes[first % 16 / 4], i));
    }
  }
  return found;
}
float value_code(Granules pages, int at, int head_dim, int key, int d) {
  const int row = at + code_granules(head_dim) + key * (round_up(head_dim, 16) / 16);
  return code_of(pages.at[row + d / 16][d % 16 / 4], d % 4);
}
// Of element d, over keys granule * kGranule and on.
uvec4 value_granule(Granules pages, int at, int head_dim, int granule, int d) {
  if (kCoded == 0) return pages.at[at + key_granules(head_dim) + granule * head_dim + d];
  const int first = granule * kGranule;
  uvec4 found;
  for (int i = 0; i < 4; i++) {
    if (kBf16)
      found[i] = narrowed(value_code(pages, at, head_dim, first + 2 * i, d)) |
                 narrowed(value_code(pages, at, head_dim, first + 2 * i + 1, d)) << 16;
    else
      found[i] = as_bits(value_code(pages, at, head_dim, first + i, d));
  }
  return found;
}

// What codes are multiplied with; 1 where there are none.
float key_scale(Granules pages, int at, int head_dim, int key) {
  return kCoded != 0 ? as_float(pages.at[at + 2 * code_granules(head_dim) + key / 4][key % 4]) : 1.0;
}
float value_scale(Granules pages, int at, int head_dim, int key) {
  return kCoded != 0 ? as_float(pages.at[at + 2 * code_granules(head_dim) + (kPage + key) / 4][key % 4]) : 1.0;
}
