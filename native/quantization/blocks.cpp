#include "blocks.h"

#include <cstring>

namespace anneal::quantization {
namespace {

void read_half(const uint8_t* from, uint16_t& to) { std::memcpy(&to, from, 2); }

// 32 codes as halves of 16 bytes: the low half of byte i is code i, the high half code i + 16.
void halves_of(const uint8_t* bytes, int half, uint8_t* codes) {
  for (int i = 0; i < half; i++) codes[i] = bytes[i] & 15, codes[i + half] = bytes[i] >> 4;
}
void to_halves(const uint8_t* codes, int half, uint8_t* bytes) {
  for (int i = 0; i < half; i++) bytes[i] = uint8_t((codes[i] & 15) | (codes[i + half] & 15) << 4);
}

// 8 scales and 8 minima of 6 bits in 12 bytes: of groups 0 to 3 whole, with the upper bits of groups 4 to 7 above them.
void read_scales(const uint8_t* q, Block& b) {
  for (int g = 0; g < 4; g++) {
    b.scales[g] = int8_t(q[g] & 63), b.minima[g] = q[g + 4] & 63;
    b.scales[g + 4] = int8_t((q[g + 8] & 15) | (q[g] >> 6) << 4);
    b.minima[g + 4] = uint8_t((q[g + 8] >> 4) | (q[g + 4] >> 6) << 4);
  }
}
void write_scales(const Block& b, uint8_t* q) {
  for (int g = 0; g < 4; g++) {
    q[g] = uint8_t(b.scales[g] | (b.scales[g + 4] >> 4) << 6);
    q[g + 4] = uint8_t(b.minima[g] | (b.minima[g + 4] >> 4) << 6);
    q[g + 8] = uint8_t((b.scales[g + 4] & 15) | (b.minima[g + 4] & 15) << 4);
  }
}

// Of an integer format.
constexpr int kScaleBytes = 4, kCodesAt = kScaleBytes + 1;

}  // namespace

float widen_half(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 31, mantissa = bits & 1023, wide;
  if (exponent == 31) {
    wide = sign | 0x7f800000 | mantissa << 13;
  } else if (exponent != 0) {
    wide = sign | (exponent + 112) << 23 | mantissa << 13;
  } else if (mantissa == 0) {
    wide = sign;
  } else {
    exponent = 113;
    while (!(mantissa & 1024)) mantissa <<= 1, --exponent;
    wide = sign | exponent << 23 | (mantissa & 1023) << 13;
  }
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

uint16_t narrow_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return sign | 0x7e00;
  if (bits >= 0x477ff000) return sign | 0x7c00;
  const int exponent = int(bits >> 23) - 112;
  if (exponent < -10) return sign;
  const uint32_t mantissa = exponent > 0 ? bits - (112u << 23) : (bits & 0x7fffff) | 0x800000;
  const int drop = exponent > 0 ? 13 : 14 - exponent;
  const uint32_t kept = mantissa >> drop, rest = mantissa & ((1u << drop) - 1), half = 1u << (drop - 1);
  return uint16_t(sign | (kept + (rest > half || (rest == half && (kept & 1)))));
}

void take_apart(TensorFormat format, const uint8_t* p, Block& b) {
  if (model::is_integer(format)) {
    std::memcpy(&b.scale, p, kScaleBytes), b.zero = p[kScaleBytes];
    const int group = model::integer_group(format);
    for (int i = 0; i < group; i++)
      b.codes[i] = model::integer_bits(format) == 8 ? p[kCodesAt + i] : (p[kCodesAt + i / 2] >> (i % 2 * 4)) & 15;
    return;
  }
  switch (format) {
    case TensorFormat::q8_0:
      read_half(p, b.d);
      for (int i = 0; i < 32; i++) b.codes[i] = p[2 + i] ^ 0x80;
      return;
    case TensorFormat::q4_0: read_half(p, b.d); return halves_of(p + 2, 16, b.codes);
    case TensorFormat::q4_1: read_half(p, b.d), read_half(p + 2, b.m); return halves_of(p + 4, 16, b.codes);
    case TensorFormat::q5_0:
    case TensorFormat::q5_1: {
      read_half(p, b.d), p += 2;
      if (format == TensorFormat::q5_1) read_half(p, b.m), p += 2;
      uint32_t fifth;
      std::memcpy(&fifth, p, 4);
      halves_of(p + 4, 16, b.codes);
      for (int i = 0; i < 32; i++) b.codes[i] |= uint8_t((fifth >> i & 1) << 4);
      return;
    }
    case TensorFormat::q4_k:
    case TensorFormat::q5_k: {
      read_half(p, b.d), read_half(p + 2, b.m);
      read_scales(p + 4, b);
      const uint8_t *fifth = p + 16, *codes = format == TensorFormat::q5_k ? fifth + 32 : fifth;
      for (int pair = 0; pair < 4; pair++) halves_of(codes + 32 * pair, 32, b.codes + 64 * pair);
      if (format == TensorFormat::q5_k)
        for (int i = 0; i < 256; i++) b.codes[i] |= uint8_t((fifth[i % 32] >> (i / 32) & 1) << 4);
      return;
    }
    default: {
      const uint8_t *low = p, *high = p + 128;
      for (int half = 0; half < 2; half++, low += 64, high += 32)
        for (int i = 0; i < 128; i++)
          b.codes[128 * half + i] =
              uint8_t((low[i % 64] >> (i / 64 * 4) & 15) | (high[i % 32] >> (i / 32 * 2) & 3) << 4);
      std::memcpy(b.scales, p + 192, 16);
      read_half(p + 208, b.d);
    }
  }
}

void put_together(TensorFormat format, const Block& b, uint8_t* p) {
  if (model::is_integer(format)) {
    std::memcpy(p, &b.scale, kScaleBytes), p[kScaleBytes] = b.zero;
    const int group = model::integer_group(format);
    if (model::integer_bits(format) == 8)
      std::memcpy(p + kCodesAt, b.codes, size_t(group));
    else
      for (int i = 0; i < group; i += 2) p[kCodesAt + i / 2] = uint8_t((b.codes[i] & 15) | b.codes[i + 1] << 4);
    return;
  }
  switch (format) {
    case TensorFormat::q8_0:
      std::memcpy(p, &b.d, 2);
      for (int i = 0; i < 32; i++) p[2 + i] = b.codes[i] ^ 0x80;
      return;
    case TensorFormat::q4_0: std::memcpy(p, &b.d, 2); return to_halves(b.codes, 16, p + 2);
    case TensorFormat::q4_1: std::memcpy(p, &b.d, 2), std::memcpy(p + 2, &b.m, 2); return to_halves(b.codes, 16, p + 4);
    case TensorFormat::q4_k:
      std::memcpy(p, &b.d, 2), std::memcpy(p + 2, &b.m, 2);
      write_scales(b, p + 4);
      for (int pair = 0; pair < 4; pair++) to_halves(b.codes + 64 * pair, 32, p + 16 + 32 * pair);
      return;
    default: {
      uint8_t *low = p, *high = p + 128;
      std::memset(p, 0, 192);
      for (int half = 0; half < 2; half++, low += 64, high += 32)
        for (int i = 0; i < 128; i++) {
          const uint8_t code = b.codes[128 * half + i];
          low[i % 64] |= uint8_t((code & 15) << (i / 64 * 4));
          high[i % 32] |= uint8_t((code >> 4) << (i / 32 * 2));
        }
      std::memcpy(p + 192, b.scales, 16);
      std::memcpy(p + 208, &b.d, 2);
    }
  }
}

bool finite_scales(TensorFormat format, const uint8_t* row, int64_t numbers) {
  const BlockSize size = block_size(format);
  if (model::is_integer(format)) {
    for (; numbers > 0; numbers -= size.numbers, row += size.bytes) {
      uint32_t scale;
      std::memcpy(&scale, row, kScaleBytes);
      if ((scale & 0x7f800000) == 0x7f800000) return false;
    }
    return true;
  }
  const bool last = format == TensorFormat::q6_k, two = format == TensorFormat::q4_1 || format == TensorFormat::q5_1 ||
                                                        format == TensorFormat::q4_k || format == TensorFormat::q5_k;
  const auto finite = [](const uint8_t* at) {
    uint16_t half;
    read_half(at, half);
    return (half & 0x7c00) != 0x7c00;
  };
  for (; numbers > 0; numbers -= size.numbers, row += size.bytes)
    if (!finite(last ? row + 208 : row) || (two && !finite(row + 2))) return false;
  return true;
}

void dequantize_row(TensorFormat format, const uint8_t* row, int64_t numbers, float* out) {
  const BlockSize size = block_size(format);
  Block b;
  for (; numbers > 0; numbers -= size.numbers, row += size.bytes, out += size.numbers) {
    take_apart(format, row, b);
    if (model::is_integer(format)) {
      for (int i = 0; i < size.numbers; i++) out[i] = float(int(b.codes[i]) - int(b.zero)) * b.scale;
      continue;
    }
    const float d = widen_half(b.d);
    switch (format) {
      case TensorFormat::q4_1:
      case TensorFormat::q5_1: {
        const float m = widen_half(b.m);
        for (int i = 0; i < 32; i++) out[i] = float(b.codes[i]) * d + m;
        break;
      }
      case TensorFormat::q4_k:
      case TensorFormat::q5_k: {
        const float dmin = widen_half(b.m);
        for (int i = 0; i < 256; i++)
          out[i] = float(b.codes[i]) * (d * float(b.scales[i / 32])) - dmin * float(b.minima[i / 32]);
        break;
      }
      case TensorFormat::q6_k:
        for (int i = 0; i < 256; i++) out[i] = float(b.codes[i] - 32) * (d * float(b.scales[i / 16]));
        break;
      default: {
        const int zero = format == TensorFormat::q8_0 ? 128 : format == TensorFormat::q4_0 ? 8 : 16;
        for (int i = 0; i < 32; i++) out[i] = float(b.codes[i] - zero) * d;
      }
    }
  }
}

}  // namespace anneal::quantization
