// Reads the text in an image with the PP-OCR detection and recognition models.
//
//   example_read_text ppocr_det.onnx ppocr_rec.onnx IMAGE.ppm     a page: finds lines, reads each
//   example_read_text - ppocr_rec.onnx IMAGE.ppm                  one line: the whole image
//
// Images are binary PPM (P6), 8 bits a channel.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <parallax/session.h>

using namespace parallax::api;

namespace {

struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
  uint8_t At(int x, int y, int c) const {
    return rgb[(static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) * 3 +
               static_cast<size_t>(c)];
  }
};

bool ReadPpm(const std::string& path, Image* image) {
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  int limit = 0;
  file >> magic >> image->width >> image->height >> limit;
  if (!file || magic != "P6" || limit != 255 || image->width < 1 || image->height < 1 ||
      image->width > 20000 || image->height > 20000) {
    return false;
  }
  file.get();  // the one white space after the header
  image->rgb.resize(static_cast<size_t>(image->width) * static_cast<size_t>(image->height) * 3);
  file.read(reinterpret_cast<char*>(image->rgb.data()),
            static_cast<std::streamsize>(image->rgb.size()));
  return static_cast<bool>(file);
}

Image Crop(const Image& image, int x0, int y0, int x1, int y1) {
  Image part;
  part.width = x1 - x0;
  part.height = y1 - y0;
  for (int y = y0; y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      for (int c = 0; c < 3; ++c) part.rgb.push_back(image.At(x, y, c));
    }
  }
  return part;
}

// The image at width x height by bilinear interpolation, as [3, height, padded] in BGR order,
// values (v / 255 - 0.5) / 0.5, zeros to the right.
std::vector<float> ToPlanes(const Image& image, int width, int height, int padded) {
  std::vector<float> planes(3 * static_cast<size_t>(height) * static_cast<size_t>(padded), 0.0f);
  const float sx = static_cast<float>(image.width) / static_cast<float>(width);
  const float sy = static_cast<float>(image.height) / static_cast<float>(height);
  for (int y = 0; y < height; ++y) {
    const float fy = std::max(0.0f, (static_cast<float>(y) + 0.5f) * sy - 0.5f);
    const int y0 = std::min(static_cast<int>(fy), image.height - 1);
    const int y1 = std::min(y0 + 1, image.height - 1);
    const float wy = fy - static_cast<float>(y0);
    for (int x = 0; x < width; ++x) {
      const float fx = std::max(0.0f, (static_cast<float>(x) + 0.5f) * sx - 0.5f);
      const int x0 = std::min(static_cast<int>(fx), image.width - 1);
      const int x1 = std::min(x0 + 1, image.width - 1);
      const float wx = fx - static_cast<float>(x0);
      for (int c = 0; c < 3; ++c) {
        const float top = static_cast<float>(image.At(x0, y0, 2 - c)) * (1 - wx) +
                          static_cast<float>(image.At(x1, y0, 2 - c)) * wx;
        const float bottom = static_cast<float>(image.At(x0, y1, 2 - c)) * (1 - wx) +
                             static_cast<float>(image.At(x1, y1, 2 - c)) * wx;
        const float v = top * (1 - wy) + bottom * wy;
        planes[(static_cast<size_t>(c) * static_cast<size_t>(height) + static_cast<size_t>(y)) *
                   static_cast<size_t>(padded) +
               static_cast<size_t>(x)] = (v / 255.0f - 0.5f) / 0.5f;
      }
    }
  }
  return planes;
}

struct Box {
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;  // end exclusive
};

// Connected components of `map` > 0.3 whose mean is at least 0.5, as boxes grown by
// 1.6 area / perimeter, which undoes the shrinking that the detector was trained on.
std::vector<Box> FindBoxes(std::span<const float> map, int width, int height) {
  const auto index = [width](int x, int y) {
    return static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x);
  };
  std::vector<bool> seen(map.size(), false);
  std::vector<Box> boxes;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      if (seen[index(x, y)] || map[index(x, y)] <= 0.3f) continue;
      Box box{x, y, x + 1, y + 1};
      double sum = 0;
      int count = 0;
      std::vector<std::pair<int, int>> stack = {{x, y}};
      seen[index(x, y)] = true;
      while (!stack.empty()) {
        const auto [px, py] = stack.back();
        stack.pop_back();
        sum += static_cast<double>(map[index(px, py)]);
        ++count;
        box = {std::min(box.x0, px), std::min(box.y0, py), std::max(box.x1, px + 1),
               std::max(box.y1, py + 1)};
        const std::array<std::pair<int, int>, 4> around = {
            {{px - 1, py}, {px + 1, py}, {px, py - 1}, {px, py + 1}}};
        for (const auto& [nx, ny] : around) {
          if (nx < 0 || ny < 0 || nx >= width || ny >= height || seen[index(nx, ny)] ||
              map[index(nx, ny)] <= 0.3f) {
            continue;
          }
          seen[index(nx, ny)] = true;
          stack.emplace_back(nx, ny);
        }
      }
      const int w = box.x1 - box.x0, h = box.y1 - box.y0;
      if (sum / count < 0.5 || h < 3 || w < 3) continue;
      const int grow = static_cast<int>(std::lround(1.6 * w * h / (2.0 * (w + h))));
      boxes.push_back({std::max(0, box.x0 - grow), std::max(0, box.y0 - grow),
                       std::min(width, box.x1 + grow), std::min(height, box.y1 + grow)});
    }
  }
  std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) {
    return a.y0 + a.y1 != b.y0 + b.y1 ? a.y0 + a.y1 < b.y0 + b.y1 : a.x0 < b.x0;
  });
  return boxes;
}

Result<std::vector<Box>> Detect(Session* detector, const Image& image) {
  const double scale = std::max(1.0, 736.0 / std::min(image.width, image.height));
  const auto side = [scale](int n) {
    return std::max(32, static_cast<int>(std::lround(n * scale / 32)) * 32);
  };
  const int width = side(image.width), height = side(image.height);
  const std::vector<float> x = ToPlanes(image, width, height, width);
  const std::array<int64_t, 4> shape = {1, 3, height, width};
  Result<std::vector<Tensor>> outputs =
      detector->Run({{detector->inputs()[0].name, View<float>(x, shape)}});
  if (!outputs.ok()) return outputs.error();
  std::vector<Box> boxes = FindBoxes((*outputs)[0].values<float>(), width, height);
  for (Box& b : boxes) {  // back to the image's own pixels
    b = {b.x0 * image.width / width, b.y0 * image.height / height,
         std::min(image.width, b.x1 * image.width / width + 1),
         std::min(image.height, b.y1 * image.height / height + 1)};
  }
  return boxes;
}

// Class 0 is blank, then the characters of the model's metadata, then the space.
std::vector<std::string> Alphabet(const Session& recognizer) {
  std::vector<std::string> table = {""};
  auto it = recognizer.metadata().find("character");
  if (it != recognizer.metadata().end()) {
    std::istringstream lines(it->second);
    for (std::string line; std::getline(lines, line);) table.push_back(line);
  }
  table.push_back(" ");
  return table;
}

Result<std::string> Recognize(Session* recognizer, const std::vector<std::string>& alphabet,
                              const Image& line) {
  constexpr int kHeight = 48;
  const int width = std::max(1, (kHeight * line.width + line.height - 1) / line.height);
  const int padded = std::max(width, 320);
  const std::vector<float> x = ToPlanes(line, width, kHeight, padded);
  const std::array<int64_t, 4> shape = {1, 3, kHeight, padded};
  Result<std::vector<Tensor>> outputs =
      recognizer->Run({{recognizer->inputs()[0].name, View<float>(x, shape)}});
  if (!outputs.ok()) return outputs.error();
  const Tensor& p = (*outputs)[0];
  const size_t classes = static_cast<size_t>(p.shape()[2]);
  if (classes != alphabet.size()) {
    return Error{ErrorKind::kInvalidModel, "the model's character list does not fit its output"};
  }
  std::string text;
  size_t before = 0;
  for (int64_t t = 0; t < p.shape()[1]; ++t) {
    const std::span<const float> row =
        p.values<float>().subspan(static_cast<size_t>(t) * classes, classes);
    const size_t best = static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    if (best != 0 && best != before) text += alphabet[best];
    before = best;
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text.substr(std::min(text.size(), text.find_first_not_of(' ')));
}

int Fail(const std::string& what) {
  std::fprintf(stderr, "read_text: %s\n", what.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: example_read_text ppocr_det.onnx|- ppocr_rec.onnx IMAGE.ppm\n");
    return 2;
  }
  Image image;
  if (!ReadPpm(argv[3], &image)) return Fail(std::string(argv[3]) + " is not a binary PPM image");
  Result<Session> recognizer = Session::Load(argv[2]);
  if (!recognizer.ok()) return Fail(recognizer.error().message);
  std::vector<Box> boxes = {{0, 0, image.width, image.height}};
  if (std::string(argv[1]) != "-") {
    Result<Session> detector = Session::Load(argv[1]);
    if (!detector.ok()) return Fail(detector.error().message);
    Result<std::vector<Box>> found = Detect(&*detector, image);
    if (!found.ok()) return Fail(found.error().message);
    boxes = std::move(*found);
  }
  const std::vector<std::string> alphabet = Alphabet(*recognizer);
  for (const Box& b : boxes) {
    Result<std::string> text =
        Recognize(&*recognizer, alphabet, Crop(image, b.x0, b.y0, b.x1, b.y1));
    if (!text.ok()) return Fail(text.error().message);
    std::printf("%s\n", text->c_str());
  }
  return 0;
}
