#include "io/svg.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace tern::io {
namespace {

std::string place(double value) { return fixed(value, 1); }

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') {
          out += c;
        } else {
          out += "\xE2\x90";
          out += static_cast<char>(0x80 + static_cast<unsigned char>(c));
        }
    }
  }
  return out;
}

double tick_step(double length) {
  const double power = std::pow(10.0, std::floor(std::log10(length)) - 1);
  for (const double factor : {1.0, 2.0, 5.0, 10.0, 20.0}) {
    if (power * factor * 5 >= length * (1 - 1e-9)) return power * factor;
  }
  return power * 50;
}

void Svg::line(std::array<double, 4> ends, std::string_view colour, std::string_view width) {
  body_ += cat("<line stroke=\"", colour, "\"", width.empty() ? "" : " stroke-width=\"", width, width.empty() ? "" : "\"",
               " x1=\"", place(ends[0]), "\" y1=\"", place(ends[1]), "\" x2=\"", place(ends[2]), "\" y2=\"",
               place(ends[3]), "\"/>\n");
}

void Svg::text(double x, double y, std::string_view anchor, std::string_view text) {
  body_ += cat("<text x=\"", place(x), "\" y=\"", place(y), "\" text-anchor=\"", anchor, "\">", escape_markup(text),
               "</text>\n");
}

void Svg::text_upwards(double x, double y, std::string_view text) {
  body_ += cat("<text x=\"", place(x), "\" y=\"", place(y), "\" text-anchor=\"middle\" transform=\"rotate(-90 ",
               place(x), " ", place(y), ")\">", escape_markup(text), "</text>\n");
}

void Svg::rect(double x, double y, double width, double height, std::string_view colour) {
  body_ += cat("<rect fill=\"", colour, "\" x=\"", place(x), "\" y=\"", place(y), "\" width=\"", place(width),
               "\" height=\"", place(height), "\"/>\n");
}

void Svg::bar(double x, double y, double width, double height, std::string_view tip) {
  body_ += cat("<rect class=\"bar\" fill=\"", kPlotColours[0], "\" x=\"", place(x), "\" y=\"", place(y), "\" width=\"",
               place(width), "\" height=\"", place(height), "\"><title>", escape_markup(tip), "</title></rect>\n");
}

void Svg::circle(double x, double y, double radius, std::string_view colour, std::string_view kind) {
  body_ += cat("<circle class=\"", kind, "\" fill=\"", colour, "\" cx=\"", place(x), "\" cy=\"", place(y), "\" r=\"",
               radius, "\"/>\n");
}

void Svg::curve(std::span<const std::array<double, 2>> points, std::string_view colour, std::string_view width) {
  body_ += cat("<polyline fill=\"none\" stroke=\"", colour, "\" stroke-width=\"", width,
               "\" stroke-linejoin=\"round\" points=\"");
  for (const auto& [x, y] : points) body_ += cat(place(x), ",", place(y), " ");
  body_ += "\"/>\n";
}

std::string Svg::finish(double width, double height, bool ground) const {
  return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", place(width), " ", place(height),
             "\" width=\"", place(width), "\" height=\"", place(height), "\" role=\"img\" aria-label=\"",
             escape_markup(label_), "\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n",
             ground ? cat("<rect fill=\"#ffffff\" width=\"", place(width), "\" height=\"", place(height), "\"/>\n")
                    : std::string(),
             body_, "</svg>\n");
}

}  // namespace tern::io
