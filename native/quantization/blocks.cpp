#include "blocks.h"

#include <cmath>
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

// Of integer formats: the scale, the zero point, the codes, those of a byte from the lowest bits on.
constexpr int kZeroAt = 4, kCodesAt = 5;

void take_integers_apart(const model::QuantizedFormat& f, const uint8_t* p, Block& b) {
  std::memcpy(&b.scale, p, 4), b.zero = p[kZeroAt];
  for (int i = 0, per = 8 / f.bits; i < f.numbers; i++)
    b.codes[i] = uint8_t((p[kCodesAt + i / per] >> (i % per * f.bits)) & ((1 << f.bits) - 1));
}
void put_integers_together(const model::QuantizedFormat& f, const Block& b, uint8_t* p) {
  std::memset(p, 0, size_t(f.bytes));
  std::memcpy(p, &b.scale, 4), p[kZeroAt] = b.zero;
  for (int i = 0, per = 8 / f.bits; i < f.numbers; i++)
    p[kCodesAt + i / per] |= uint8_t((b.codes[i] & ((1 << f.bits) - 1)) << (i % per * f.bits));
}

}  // namespace

GroupScale group_scale(const model::QuantizedFormat& f, const Block& b, int group) {
  if (f.zero == model::kOwnZeros) return {b.scale, 0};
  if (f.bits == 16) return {b.exponent ? std::ldexp(1.0f, int(b.exponent) - 127) : 0, 0};
  if (f.looked_up) return {b.exponent > 1 ? std::ldexp(1.0f, int(b.exponent) - 128) : 0, 0};
  const float d = widen_half(b.d), m = f.minima ? widen_half(b.m) : 0;
  if (f.groups() == 1) return {d, m};
  return {d * float(b.scales[group]), f.minima ? -(m * float(b.minima[group])) : 0};
}

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
  if (model::is_integer(format)) return take_integers_apart(model::quantized_format(format), p, b);
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
    case TensorFormat::q6_k: {
      const uint8_t *low = p, *high = p + 128;
      for (int half = 0; half < 2; half++, low += 64, high += 32)
        for (int i = 0; i < 128; i++)
          b.codes[128 * half + i] =
              uint8_t((low[i % 64] >> (i / 64 * 4) & 15) | (high[i % 32] >> (i / 32 * 2) & 3) << 4);
      std::memcpy(b.scales, p + 192, 16);
      read_half(p + 208, b.d);
      return;
    }
    case TensorFormat::mxfp4:
      b.exponent = p[0];
      halves_of(p + 1, 16, b.codes);
      for (int i = 0; i < 32; i++) b.codes[i] = kMicroCodes[b.codes[i]];
      return;
    case TensorFormat::int16_64:
      b.exponent = p[0];
      std::memcpy(b.words, p + 1, sizeof b.words);
      return;
    default: return;
  }
}

void put_together(TensorFormat format, const Block& b, uint8_t* p) {
  if (model::is_integer(format)) return put_integers_together(model::quantized_format(format), b, p);
  switch (format) {
    case TensorFormat::q8_0:
      std::memcpy(p, &b.d, 2);
      for (int i = 0; i < 32; i++) p[2 + i] = b.codes[i] ^ 0x80;
      return;
    case TensorFormat::q4_0: std::memcpy(p, &b.d, 2); return to_halves(b.codes, 16, p + 2);
    case TensorFormat::q4_1: std::memcpy(p, &b.d, 2), std::memcpy(p + 2, &b.m, 2); return to_halves(b.codes, 16, p + 4);
    case TensorFormat::q5_0: {
      uint32_t fifth = 0;
      for (int i = 0; i < 32; i++) fifth |= uint32_t(b.codes[i] >> 4) << i;
      std::memcpy(p, &b.d, 2), std::memcpy(p + 2, &fifth, 4);
      return to_halves(b.codes, 16, p + 6);
    }
    case TensorFormat::q4_k:
      std::memcpy(p, &b.d, 2), std::memcpy(p + 2, &b.m, 2);
      write_scales(b, p + 4);
      for (int pair = 0; pair < 4; pair++) to_halves(b.codes + 64 * pair, 32, p + 16 + 32 * pair);
      return;
    case TensorFormat::q6_k: {
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
      return;
    }
    case TensorFormat::mxfp4: {
      uint8_t stored[32];
      for (int i = 0; i < 32; i++) stored[i] = stored_micro_code(b.codes[i]);
      p[0] = b.exponent;
      return to_halves(stored, 16, p + 1);
    }
    case TensorFormat::int16_64: p[0] = b.exponent, std::memcpy(p + 1, b.words, sizeof b.words); return;
    default: return;  // not made
  }
}

bool finite_scales(TensorFormat format, const uint8_t* row, int64_t numbers) {
  const model::QuantizedFormat& f = model::quantized_format(format);
  const bool own_zeros = f.zero == model::kOwnZeros;
  const auto finite = [](const uint8_t* half) {
    uint16_t bits;
    read_half(half, bits);
    return (bits & 0x7c00) != 0x7c00;
  };
  for (const uint8_t* at = row + f.scale_at; numbers > 0; numbers -= f.numbers, at += f.bytes) {
    if (f.looked_up || f.bits == 16) {
      if (*at == 255) return false;
    } else if (own_zeros) {
      uint32_t scale;
      std::memcpy(&scale, at, 4);
      if ((scale & 0x7f800000) == 0x7f800000) return false;
    } else if (!finite(at) || (f.minima && !finite(at + 2))) {
      return false;
    }
  }
  return true;
}

void dequantize_row(TensorFormat format, const uint8_t* row, int64_t numbers, float* out) {
  const model::QuantizedFormat& f = model::quantized_format(format);
  Block b;
  for (; numbers > 0; numbers -= f.numbers, row += f.bytes) {
    take_apart(format, row, b);
    if (f.bits == 16) {
      const float scale = group_scale(f, b, 0).scale;
      for (int i = 0; i < f.numbers; i++) *out++ = float(b.words[i]) * scale;
      continue;
    }
    const int zero = f.zero == model::kOwnZeros ? b.zero : f.zero;
    for (int g = 0; g < f.groups(); g++) {
      const GroupScale group = group_scale(f, b, g);
      const uint8_t* const codes = b.codes + g * f.group;
      for (int i = 0; i < f.group; i++) {
        const float product = float(int(codes[i]) - zero) * group.scale;
        *out++ = f.minima ? product + group.minimum : product;
      }
    }
  }
}

}  // namespace anneal::quantization
