R"cl(
__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void dots(__global const uint* in, __global int* out) {
  const int i = GID * 128 + LID;
  out[i] = DP4A(in[3 * i], in[3 * i + 1], (int)in[3 * i + 2]);
}
)cl"
