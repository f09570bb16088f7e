// Quotients, roots, exp, log and tanh with the bits of the processor's kernels, whatever precision a driver has for them.

// a / b, rounded to nearest: Markstein's iteration on the mantissas, whose quotient lies between 1/2 and 2.
float quotient(float a, float b) {
  const uint ua = as_bits(a), ub = as_bits(b), sign = (ua ^ ub) & kSign;
  const int ea = int((ua & kExponent) >> 23), eb = int((ub & kExponent) >> 23);
  if (ea == 0 || eb == 0 || ea == 255 || eb == 255) {
    const bool nan = a != a || b != b || (ea == 0 && eb == 0) || (ea == 255 && eb == 255);
    return as_float(nan ? 0x7fc00000u : ea == 0 || eb == 255 ? sign : sign | kExponent);
  }
  const float x = as_float((ua & kMantissa) | kOne), y = as_float((ub & kMantissa) | kOne);
  float inverse = 1.0 / y;
  inverse = mad(mad(-y, inverse, 1.0), inverse, inverse);
  inverse = mad(mad(-y, inverse, 1.0), inverse, inverse);
  float q = x * inverse;
  q = mad(mad(-y, q, x), inverse, q);
  q = mad(mad(-y, q, x), inverse, q);
  const uint bits = as_bits(q);
  const int exponent = int(bits >> 23) + ea - eb;
  if (exponent <= 0) return as_float(sign);
  if (exponent >= 255) return as_float(sign | kExponent);
  return as_float(sign | (uint(exponent) << 23) | (bits & kMantissa));
}

// The square root, rounded to nearest, by the same means; of what is not below 0.
float root(float x) {
  const uint bits = as_bits(x);
  const int e = int((bits & kExponent) >> 23);
  if (e == 0) return as_float(bits & kSign);
  if (e == 255 || x < 0.0) return x > 0.0 ? x : as_float(0x7fc00000u);
  const int odd = (e + 1) & 1;  // so that e - 127 - odd is even
  const float m = as_float((bits & kMantissa) | uint(127 + odd) << 23);
  const float first = inversesqrt(m);
  float g = m * first, h = 0.5 * first;
  LOOP for (int i = 0; i < 2; i++) {
    const float r = mad(-h, g, 0.5);
    h = mad(h, r, h), g = mad(g, r, g);
  }
  g = mad(mad(-g, g, m), h, g);
  return as_float(as_bits(g) + uint((e - 127 - odd) / 2 << 23));
}

// ---- exp, log, tanh: the polynomials of cpu/kernels/exp_log.h

const float kLn2High = 0.69314575195312500, kLn2Low = 1.4286068203094172e-6, kLog2e = 1.4426950408889634;
const float kExpLowest = -87.336544, kExpHighest = 88.37626, kLowest = -3.402823466e+38;

float exponential(float x) {
  const float limited = kExpHighest < x ? kExpHighest : x, shift = 12582912.0;
  const float shifted = mad(limited, kLog2e, shift), n = shifted - shift;
  const float r = mad(n, -kLn2Low, mad(n, -kLn2High, limited));
  float q = mad(1.381446724e-03, r, 8.368780836e-03);
  q = mad(q, r, 4.166839272e-02);
  q = mad(q, r, 1.666651964e-01);
  q = mad(q, r, 4.999999404e-01);
  const float p = mad(q, r * r, r) + 1.0;
  return x < kExpLowest ? 0.0 : as_float(as_bits(p) + (as_bits(shifted) << 23));
}

float logarithm(float x) {
  const uint offset = as_bits(x) + (0x3f800000u - 0x3f3504f3u);
  const float m = as_float((offset & 0x007fffffu) + 0x3f3504f3u);
  const float n = as_float((offset >> 23) | 0x4b000000u) - (8388608.0 + 127.0);
  const float f = m - 1.0, s = quotient(f, 2.0 + f), z = s * s;
  float tail = mad(2.0 / 9.0, z, 2.0 / 7.0);
  tail = mad(tail, z, 2.0 / 5.0);
  tail = mad(tail, z, 2.0 / 3.0) * z;
  const float half_square = 0.5 * f * f;
  const float low = mad(s, half_square + tail, mad(n, kLn2Low, x - x));
  return mad(n, kLn2High, f - (half_square - low));
}

float tangent(float x) {
  const float size = x > -x ? x : -x, z = x * x;
  float q = mad(-5.70498872745e-3, z, 2.06390887954e-2);
  q = mad(q, z, -5.37397155531e-2);
  q = mad(q, z, 1.33314422036e-1);
  q = mad(q, z, -3.33332819422e-1);
  const float near = mad(q * z, x, x);
  const float far = 1.0 - quotient(2.0, exponential(size + size) + 1.0);
  return size < 0.625 ? near : x < 0.0 ? -far : far;
}
