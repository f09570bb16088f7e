// Activations of the gate (cpu/kernels/gated.h).
const int kSilu = 0, kGeluTanh = 1;
layout(constant_id = 1) const int activation = kSilu;

float gelu_part(float g) { return quotient(1.0, 1.0 + exponential(-(g * mad(g * g, 0.07135481387376785, 1.5957691216057308)))); }

float activated(float g) {
  return activation == kSilu ? quotient(g, 1.0 + exponential(-g)) : g * gelu_part(g);
}
