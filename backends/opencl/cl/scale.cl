kernel void scale(INPUT(x), INPUT(factor), OUTPUT(y), const Walk walk) {
  const float by = *AS(float, factor);
#define STEP(o, i0) PUT_OR_ADD(y, o, GET(x, i0) * by);
  WALK(walk, 2, STEP)
}
