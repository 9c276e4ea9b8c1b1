// A number of any dtype, from and to memory.
#pragma once

#include "backends/cuda/cu/common.cuh"

// As it was read: whole ones keep their 64 bits.
struct Number {
  bool is_real;
  bool is_unsigned;
  double real;
  long whole;
};

DEVICE float e4m3_value(uint code) {
  const uint exponent = code >> 3 & 15u, mantissa = code & 7u;
  float value = exponent != 0 ? __uint_as_float((exponent + 120u) << 23 | mantissa << 20)
                              : static_cast<float>(mantissa) * 0x1p-9f;
  if (exponent == 15 && mantissa == 7) value = __uint_as_float(0x7fc00000u);
  return (code & 0x80u) != 0 ? -value : value;
}

DEVICE Number load_number(int type, const uchar* at, long i) {
  Number number = {type <= F64 || type >= F8_E4M3, type == U64, 0.0, 0};
  switch (type) {
    case F32: case F16: case BF16: number.real = load_float(type, at, i); break;
    case F64: number.real = reinterpret_cast<const double*>(at)[i]; break;
    case F8_E4M3: number.real = e4m3_value(at[i]); break;
    case F8_E5M2: number.real = f16_to_float(static_cast<ushort>(at[i] << 8)); break;
    case I8: number.whole = reinterpret_cast<const signed char*>(at)[i]; break;
    case U8: number.whole = at[i]; break;
    case I16: number.whole = reinterpret_cast<const short*>(at)[i]; break;
    case U16: number.whole = reinterpret_cast<const ushort*>(at)[i]; break;
    case I32: number.whole = reinterpret_cast<const int*>(at)[i]; break;
    case U32: number.whole = reinterpret_cast<const uint*>(at)[i]; break;
    case BOOL: number.whole = at[i] != 0 ? 1 : 0; break;
    default: number.whole = reinterpret_cast<const long*>(at)[i]; break;
  }
  return number;
}

// fp32 towards zero, with the last bit set where something was cut off: rounding that to 16 bits or fewer rounds once.
DEVICE float odd_of_real(double real) {
  const float value = static_cast<float>(real);
  if (static_cast<double>(value) == real || real != real) return value;
  const bool beyond = static_cast<double>(fabsf(value)) > (real < 0.0 ? -real : real);
  return __uint_as_float((__float_as_uint(value) - (beyond ? 1u : 0u)) | 1u);
}
DEVICE float odd_of_whole(ulong size, bool negative) {
  int shift = 0;
  while ((size >> shift) >= 1ul << 24) ++shift;
  float value = static_cast<float>(size >> shift);
  for (int i = 0; i < shift; ++i) value *= 2.0f;
  if ((size >> shift << shift) != size) value = __uint_as_float(__float_as_uint(value) | 1u);
  return negative ? -value : value;
}
DEVICE float to_odd(const Number& number) {
  if (number.is_real) return odd_of_real(number.real);
  const ulong bits = static_cast<ulong>(number.whole);
  const bool negative = !number.is_unsigned && number.whole < 0;
  return odd_of_whole(negative ? 0 - bits : bits, negative);
}
DEVICE double to_real(const Number& number) {
  if (number.is_real) return number.real;
  return number.is_unsigned ? static_cast<double>(static_cast<ulong>(number.whole)) : static_cast<double>(number.whole);
}
DEVICE float to_float(const Number& number) {
  if (number.is_real) return static_cast<float>(number.real);
  return number.is_unsigned ? static_cast<float>(static_cast<ulong>(number.whole)) : static_cast<float>(number.whole);
}

// A float of 8 bits: `mantissa` bits, this bias; `largest`: the code of the largest number, `beyond`: of what is
// larger.
DEVICE uchar encode_byte(float value, int mantissa, int bias, uint largest, uint beyond) {
  const uint bits = __float_as_uint(value);
  const uint sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uchar>(sign | 0x7fu);
  if (magnitude == 0x7f800000u) return static_cast<uchar>(sign | beyond);
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const int below = 1 - bias - exponent > 0 ? 1 - bias - exponent : 0;  // steps into the subnormal numbers
  const int shift = 23 - mantissa + below;
  if (shift > 24 || magnitude < 0x00800000u) return static_cast<uchar>(sign);
  const uint whole = (magnitude & 0x7fffffu) | 0x800000u;
  const uint rest = whole & ((1u << shift) - 1u), middle = 1u << (shift - 1);
  uint code = whole >> shift;
  code += rest > middle || (rest == middle && (code & 1u) != 0) ? 1u : 0u;
  if (below == 0) code += static_cast<uint>(exponent + bias - 1) << mantissa;
  return static_cast<uchar>(sign | (code > largest ? beyond : code));
}

// Towards zero, past the ends to the ends, NaN to 0.
DEVICE long to_whole(const Number& number, long low, long high) {
  if (!number.is_real) return number.whole;
  if (number.real != number.real) return 0;
  if (number.real <= static_cast<double>(low)) return low;
  if (number.real >= static_cast<double>(high)) return high;
  return static_cast<long>(number.real);
}
DEVICE ulong to_u64(const Number& number) {
  if (!number.is_real) return static_cast<ulong>(number.whole);
  if (!(number.real > 0.0)) return 0;
  return number.real >= 0x1p64 ? ~0ul : static_cast<ulong>(number.real);
}

// `adds`: to what is there; floats alone.
DEVICE void store_number(int type, bool adds, uchar* at, long i, Number number) {
  if (adds) number = {true, false, to_real(load_number(type, at, i)) + to_real(number), 0};
  switch (type) {
    case F32: reinterpret_cast<float*>(at)[i] = to_float(number); break;
    case F16: case BF16: store_float(type, at, i, to_odd(number)); break;
    case F64: reinterpret_cast<double*>(at)[i] = to_real(number); break;
    case F8_E4M3: at[i] = encode_byte(to_odd(number), 3, 7, 0x7e, 0x7f); break;
    case F8_E5M2: at[i] = encode_byte(to_odd(number), 2, 15, 0x7b, 0x7c); break;
    case I8: reinterpret_cast<signed char*>(at)[i] = static_cast<signed char>(to_whole(number, -128, 127)); break;
    case U8: at[i] = static_cast<uchar>(to_whole(number, 0, 255)); break;
    case I16: reinterpret_cast<short*>(at)[i] = static_cast<short>(to_whole(number, -32768, 32767)); break;
    case U16: reinterpret_cast<ushort*>(at)[i] = static_cast<ushort>(to_whole(number, 0, 65535)); break;
    case I32: reinterpret_cast<int*>(at)[i] = static_cast<int>(to_whole(number, -0x80000000L, 0x7fffffffL)); break;
    case U32: reinterpret_cast<uint*>(at)[i] = static_cast<uint>(to_whole(number, 0, 0xffffffffL)); break;
    case I64:
      reinterpret_cast<long*>(at)[i] = to_whole(number, -0x7fffffffffffffffL - 1, 0x7fffffffffffffffL);
      break;
    case U64: reinterpret_cast<ulong*>(at)[i] = to_u64(number); break;
    default: at[i] = number.is_real ? number.real != 0.0 : number.whole != 0; break;
  }
}
