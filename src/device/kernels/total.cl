R"cl(
// total = start + state 0 + state 1 + ..., left to right. The maxima and all factors come first, in parallel, then a
// chain of two operations a step. A work group is a row of a job. Job: first state, states, start (-1: the empty state),
// total, rows. Starts are from float `starts_at` on.
__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void total(__global const float* in, __global const float* starts, __global float* out, __global const uint* jobs, uint starts_at,
           uint first_job) {
  __local float m[128];
  __local float s[128];
  __local float fa[128];
  __local float fb[128];
  __global const uint* job = jobs + (first_job + (GID >> 3)) * JOB;
  const int t = LID, r = GID & 7, count = (int)job[1];
  if (r >= (int)job[4]) return;
  __global const float* p = in + ((ulong)job[0] * 8 + r) * PITCH;
  float a = 0.0f, b = 0.0f, sum = 0.0f, carry = -INF;
  if (job[2] != 0xffffffffu) {
    __global const float* from = starts + starts_at + ((ulong)job[2] * 8 + r) * PITCH;
    if (t < DV) a = from[t];
    if (t + 128 < DV) b = from[t + 128];
    carry = from[DV];
    sum = from[DV + 1];
  }
  for (int i0 = 0; i0 < count; i0 += 128) {
    const int n = count - i0 < 128 ? count - i0 : 128;
    const float mine = t < n ? p[(ulong)(i0 + t) * 8 * PITCH + DV] : -INF;
    s[t] = t < n ? p[(ulong)(i0 + t) * 8 * PITCH + DV + 1] : 0.0f;
    m[t] = mine;
    BAR();
    for (int d = 1; d < 128; d += d) {
      const float x = t >= d ? m[t - d] : -INF;
      BAR();
      m[t] = FMAX(m[t], x);
      BAR();
    }
    const float was = FMAX(carry, t ? m[t - 1] : -INF), now = FMAX(carry, m[t]), low = FMAX(now, LOWEST);
    fa[t] = W(was - low);
    fb[t] = W(mine - low);
    BAR();
    carry = FMAX(carry, m[127]);
    __global const float* o = p + (ulong)i0 * 8 * PITCH + (t < DV ? t : 0);
    int i = 0;
#if DV <= 128
    for (; i + 16 <= n; i += 16) {
      float u[16];
      UNROLL for (int j = 0; j < 16; ++j) u[j] = o[(ulong)(i + j) * 8 * PITCH];
      UNROLL for (int j = 0; j < 16; ++j) {
        a = FMA(u[j], fb[i + j], a * fa[i + j]);
        sum = FMA(s[i + j], fb[i + j], sum * fa[i + j]);
      }
    }
#endif
    for (; i < n; ++i) {
      a = FMA(o[(ulong)i * 8 * PITCH], fb[i], a * fa[i]);
      if (t + 128 < DV) b = FMA(o[(ulong)i * 8 * PITCH + 128], fb[i], b * fa[i]);
      sum = FMA(s[i], fb[i], sum * fa[i]);
    }
    BAR();
  }
  __global float* to = out + ((ulong)job[3] * 8 + r) * PITCH;
  if (t < DV) to[t] = a;
  if (t + 128 < DV) to[t + 128] = b;
  if (t == 0) {
    to[DV] = carry;
    to[DV + 1] = sum;
  }
}
)cl"
