// The commands of docs/cuda.md run, over the fake of NVIDIA's driver. If this fails, a user can't do what it shows.
#include "page.h"

namespace tern::e2e {
namespace {

TEST(CudaPage, Runs) {
  TinyModel model;
  model.heads = 2;  // of 16, as the backend's attention takes none below
  model.kv_heads = 1;
  run_page("docs/cuda.md", 12,
           "export TERN_FAKE_CUDA_DEVICES=2 LD_LIBRARY_PATH='" TERN_FAKE_CUDA "'\n" + kServesAndEnds, model);
}

}  // namespace
}  // namespace tern::e2e
