#include "tests/crash/disk.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tern::crash {

namespace fs = std::filesystem;
namespace {

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string below(const std::string& path, const std::string& root) {
  return path.starts_with(root + "/") ? path.substr(root.size() + 1) : path;
}

std::uint64_t inode_of(const fs::path& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

}  // namespace

std::vector<Record> read_journal(const fs::path& journal, const fs::path& root) {
  const std::string bytes = read_file(journal);
  std::vector<Record> records;
  std::size_t at = 0;
  const auto take = [&](std::size_t size) {
    if (bytes.size() - at < size) throw std::runtime_error(journal.string() + " ends in the middle of a record");
    at += size;
    return bytes.substr(at - size, size);
  };
  while (at < bytes.size()) {
    Record record;
    std::memcpy(&record.head, take(sizeof(RecordHead)).data(), sizeof(RecordHead));
    record.path = below(take(record.head.path_size), root.string());
    record.data = take(record.head.data_size);
    const Operation operation = record.head.operation;
    if (operation == Operation::rename || operation == Operation::exchange) {
      record.data = below(record.data, root.string());
    }
    records.push_back(std::move(record));
  }
  return records;
}

Disk::Disk(const fs::path& root) { root_ = load(root); }

std::uint64_t Disk::load(const fs::path& path) {
  Node node;
  const auto status = fs::symlink_status(path);
  if (fs::is_symlink(status)) {
    node.link = fs::read_symlink(path).string();
  } else if (fs::is_directory(status)) {
    node.is_folder = true;
    for (const auto& entry : fs::directory_iterator(path)) {
      node.entries[entry.path().filename().string()] = load(entry.path());
    }
    node.history = {node.entries};
  } else {
    node.synced = read_file(path);
  }
  return add(inode_of(path), std::move(node));
}

std::uint64_t Disk::add(std::uint64_t inode, Node node) {
  if (node.is_folder && node.history.empty()) node.history = {node.entries};
  nodes_[next_] = std::move(node);
  nodes_of_inodes_[inode] = next_;
  return next_++;
}

std::uint64_t Disk::at(const std::string& path) const {
  std::uint64_t node = root_;
  for (const auto& part : fs::path(path)) {
    const Entries& entries = nodes_.at(node).entries;
    const auto found = entries.find(part.string());
    if (found == entries.end()) throw std::runtime_error("the journal names " + path + ", which nobody made");
    node = found->second;
  }
  return node;
}

std::uint64_t Disk::folder_of(const std::string& path) const { return at(fs::path(path).parent_path().string()); }

void Disk::set(const std::string& path, std::uint64_t node) {
  Node& folder = nodes_.at(folder_of(path));
  const std::string name = fs::path(path).filename().string();
  if (node == 0) {
    folder.entries.erase(name);
  } else {
    folder.entries[name] = node;
  }
  folder.history.push_back(folder.entries);
}

void Disk::apply(const Record& record) {
  const RecordHead& head = record.head;
  const auto file = [&]() -> Node& { return nodes_.at(nodes_of_inodes_.at(head.inode)); };
  switch (head.operation) {
    case Operation::create:
    case Operation::mkdir:
    case Operation::symlink: {
      Node node;
      node.is_folder = head.operation == Operation::mkdir;
      node.link = record.data;
      const std::uint64_t made = add(head.inode, std::move(node));
      return set(record.path, made);
    }
    case Operation::write:
      file().changes.push_back({record.data, head.offset, false});
      return;
    case Operation::truncate:
      file().changes.push_back({{}, head.offset, true});
      return;
    case Operation::sync: {
      Node& node = file();
      for (const Change& one : node.changes) change(node.synced, one, false);
      node.changes.clear();
      if (node.is_folder) node.history = {node.entries};
      return;
    }
    case Operation::rename: {
      // Within one folder, as tern renames: one change of it.
      if (folder_of(record.path) != folder_of(record.data)) throw std::runtime_error("a rename between folders");
      Node& folder = nodes_.at(folder_of(record.path));
      const std::uint64_t node = at(record.path);
      folder.entries.erase(fs::path(record.path).filename().string());
      return set(record.data, node);
    }
    case Operation::exchange: {
      Node& folder = nodes_.at(folder_of(record.path));
      const std::uint64_t one = at(record.path);
      folder.entries[fs::path(record.path).filename().string()] = at(record.data);
      return set(record.data, one);
    }
    case Operation::unlink:
      return set(record.path, 0);
    case Operation::report:
      return;
  }
}

void Disk::change(std::string& bytes, const Change& change, bool zeros) {
  if (change.is_size) {
    bytes.resize(change.offset);
    return;
  }
  bytes.resize(std::max(bytes.size(), change.offset + change.bytes.size()));
  if (!zeros) bytes.replace(change.offset, change.bytes.size(), change.bytes);
}

std::string Disk::bytes_of(const Node& node, Unsynced unsynced, std::mt19937& random) const {
  std::string bytes = node.synced;
  std::size_t count = node.changes.size();
  if (unsynced == Unsynced::nothing || unsynced == Unsynced::entries) count = 0;
  if (unsynced == Unsynced::beginnings) count = random() % (node.changes.size() + 1);
  for (std::size_t i = 0; i < count; ++i) change(bytes, node.changes[i], unsynced == Unsynced::entries_zeros);
  return bytes;
}

const Disk::Entries& Disk::entries_of(const Node& node, Unsynced unsynced, std::mt19937& random) const {
  if (unsynced == Unsynced::nothing) return node.history.front();
  return unsynced == Unsynced::beginnings ? node.history[random() % node.history.size()] : node.entries;
}

void Disk::leave(const fs::path& folder, Unsynced unsynced, std::mt19937& random) const {
  for (const auto& [name, node] : entries_of(nodes_.at(root_), unsynced, random)) {
    leave(node, folder / name, unsynced, random);
  }
}

void Disk::leave(std::uint64_t number, const fs::path& path, Unsynced unsynced, std::mt19937& random) const {
  const Node& node = nodes_.at(number);
  if (!node.link.empty()) {
    fs::create_symlink(node.link, path);
  } else if (node.is_folder) {
    fs::create_directory(path);
    for (const auto& [name, inner] : entries_of(node, unsynced, random)) leave(inner, path / name, unsynced, random);
  } else {
    const std::string bytes = bytes_of(node, unsynced, random);
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

}  // namespace tern::crash
