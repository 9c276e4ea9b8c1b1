kernel void axpby(INPUT(x), INPUT(y), OUTPUT(out), const Walk walk, const float a, const float b) {
#define STEP(o, i0, i1) PUT_OR_ADD(out, o, HAS_y ? a * GET(x, i0) + b * GET(y, i1) : a * GET(x, i0));
  WALK(walk, 3, STEP)
}
