#include <algorithm>
#include <map>

#include "base/strings.h"
#include "cli/device_report.h"
#include "cli/json_text.h"

namespace tern::cli {
namespace {

// The words that npu-smi, nvidia-smi and derived_link use; another word is the vendor's own.
const std::map<std::string, std::string>& link_words() {
  static const std::map<std::string, std::string> words = {
      {"X", "the device itself"},
      {"SYS", "over PCIe and the link between processors"},
      {"PHB", "over PCIe and the processor's host bridge"},
      {"PXB", "over several PCIe switches"},
      {"PIX", "over one PCIe switch"},
      {"HCCS", "over HCCS, directly"},
      {"HCCS_SW", "over HCCS and a switch"},
      {"SIO", "two dies of one package"},
      {"NVLINK", "over NVLink, directly"},
      {"PCIE", "over PCIe"},
      {"HOST", "through the host's memory"},
      {"?", "not known"},
  };
  return words;
}

struct Row {
  std::string device;
  std::vector<std::string> links;  // by column
  std::string pci_address;
  std::string cpus;
  std::string numa_node;
};

std::vector<Row> rows_of(const accel::ProbedBackend& backend, const std::string& device,
                         const accel::Inspection& inspection) {
  std::vector<Row> rows;
  const int devices = static_cast<int>(backend.devices.size());
  for (int i = 0; i < devices; ++i) {
    if (!is_wanted(device, backend, i)) continue;
    const auto& info = backend.devices[static_cast<std::size_t>(i)];
    const auto& status = inspection.devices[static_cast<std::size_t>(i)];
    Row row;
    row.device = cat(backend.name, ":", i);
    for (int other = 0; other < devices; ++other) {
      const auto place = static_cast<std::size_t>(other);
      const bool told = place < status.links.size() && !status.links[place].empty();
      row.links.push_back(other == i ? "X"
                          : told     ? status.links[place]
                                     : accel::derived_link(info, backend.devices[place], other));
    }
    row.pci_address = info.pci_address;
    row.cpus = status.cpu_affinity.empty() ? accel::derived_affinity(info) : status.cpu_affinity;
    row.numa_node = info.numa_node < 0 ? "" : cat(info.numa_node);
    rows.push_back(row);
  }
  return rows;
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

std::string legend(const std::vector<Row>& rows) {
  std::vector<std::string> used;
  for (const auto& row : rows) used.insert(used.end(), row.links.begin(), row.links.end());
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::string out;
  for (const auto& word : used) {
    const auto known = link_words().find(word);
    out += cat("  ", padded(word, 8), known == link_words().end() ? "the vendor's own word" : known->second, "\n");
  }
  return out;
}

}  // namespace

std::string links_text(const accel::ProbedBackend& backend, const std::string& device,
                       const accel::Inspection& inspection) {
  const auto rows = rows_of(backend, device, inspection);
  if (rows.empty()) return "";
  std::size_t width = 8;
  for (std::size_t i = 0; i < backend.devices.size(); ++i) width = std::max(width, cat(backend.name, ":", i).size() + 2);
  for (const auto& row : rows) {
    for (const auto& link : row.links) width = std::max(width, link.size() + 2);
  }
  std::string out = padded("", width);
  for (std::size_t i = 0; i < backend.devices.size(); ++i) out += padded(cat(backend.name, ":", i), width);
  std::size_t cpus_width = 16;
  for (const auto& row : rows) cpus_width = std::max(cpus_width, row.cpus.size() + 2);
  out += cat(padded("CPU affinity", cpus_width), padded("NUMA", 6), "PCI\n");
  for (const auto& row : rows) {
    out += padded(row.device, width);
    for (const auto& link : row.links) out += padded(link, width);
    out += cat(padded(row.cpus.empty() ? "any" : row.cpus, cpus_width),
               padded(row.numa_node.empty() ? "-" : row.numa_node, 6),
               row.pci_address.empty() ? "-" : row.pci_address, "\n");
  }
  if (!inspection.trouble.empty()) out += cat("  trouble: ", inspection.trouble, "\n");
  return out + legend(rows);
}

std::string links_json(const accel::ProbedBackend& backend, const std::string& device,
                       const accel::Inspection& inspection) {
  std::vector<std::string> parts;
  for (const auto& row : rows_of(backend, device, inspection)) {
    std::vector<std::string> links;
    for (std::size_t i = 0; i < row.links.size(); ++i) {
      links.push_back(cat(json_quote(cat(backend.name, ":", i)), ": ", json_quote(row.links[i])));
    }
    parts.push_back(cat("{\"device\": ", json_quote(row.device), ", \"links\": {", join(links, ", "),
                        "}, \"pci_address\": ", json_quote(row.pci_address), ", \"cpu_affinity\": ", json_quote(row.cpus),
                        ", \"numa_node\": ", row.numa_node.empty() ? "null" : row.numa_node, "}"));
  }
  return join(parts, ",\n ");
}

}  // namespace tern::cli
