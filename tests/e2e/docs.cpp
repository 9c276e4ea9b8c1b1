// The pages' commands run: each code block of the pages, on a tiny model in the place of the bundled one.
#include "page.h"

namespace tern::e2e {
namespace {

TEST(Docs, QuickstartRuns) { run_page("docs/quickstart.md", 9); }
TEST(Docs, FilesRuns) { run_page("docs/files.md", 7); }
TEST(Docs, InferenceRuns) { run_page("docs/inference.md", 14); }
TEST(Docs, ExportRuns) { run_page("docs/export.md", 7); }
TEST(Docs, DataRuns) { run_page("docs/data.md", 6); }
TEST(Docs, TasksRuns) { run_page("docs/tasks.md", 6); }
TEST(Docs, TunersRuns) { run_page("docs/tuners.md", 5); }
TEST(Docs, ReadmeRuns) { run_page("README.md", 2); }

}  // namespace
}  // namespace tern::e2e
