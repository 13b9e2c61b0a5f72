// File URLs: which file they name, and what is reported of those of Windows.
#include "troupe/transport/rendezvous/file_url.hpp"

#include <gtest/gtest.h>

namespace troupe::transport {
namespace {

using form = file_url::form;

struct expectation {
  std::string_view rest;
  form kind;
  std::string path = {};
  std::string drive = {};
  std::string machine = {};
  std::string share = {};
};

void expect(const std::vector<expectation>& all) {
  for (const auto& one : all) {
    const auto url = parse_file_url(one.rest);
    EXPECT_EQ(url.kind, one.kind) << one.rest;
    if (one.kind == form::none) continue;
    EXPECT_EQ(url.path, one.path) << one.rest;
    EXPECT_EQ(url.drive, one.drive) << one.rest;
    EXPECT_EQ(url.machine, one.machine) << one.rest;
    EXPECT_EQ(url.share, one.share) << one.rest;
  }
}

TEST(file_url, takes_paths_as_they_are) {
  expect({{"/tmp/meet", form::path, "/tmp/meet"},
          {"localhost/tmp/meet", form::path, "/tmp/meet"},
          {"//tmp/meet", form::path, "//tmp/meet"},
          {"/tmp/a%20b", form::path, "/tmp/a%20b"},
          {"/tmp/a\\b", form::path, "/tmp/a\\b"},
          {"/dc:/meet", form::path, "/dc:/meet"},
          {"/c:meet", form::path, "/c:meet"}});
}

TEST(file_url, understands_drives) {
  expect({{"/c:/tmp/meet", form::drive, "/tmp/meet", "c:"},
          {"/D|/meet", form::drive, "/meet", "D:"},
          {"c:/tmp/meet", form::drive, "/tmp/meet", "c:"},
          {"/c:\\tmp\\meet", form::drive, "/tmp/meet", "c:"},
          {"/c:/my%20files/meet", form::drive, "/my files/meet", "c:"},
          {"/c:/100%/50%5/meet", form::drive, "/100%/50%5/meet", "c:"}});
}

TEST(file_url, understands_shared_drives) {
  expect({{"////machine/share/meet", form::share, "/meet", "", "machine", "share"},
          {"////machine/share/a/meet", form::share, "/a/meet", "", "machine", "share"},
          {"machine/share/a/meet", form::share, "/a/meet", "", "machine", "share"},
          {"\\\\machine\\my%20share\\meet", form::share, "/meet", "", "machine", "my share"}});
}

TEST(file_url, refuses_what_names_no_file) {
  for (const auto* rest : {"", "/", "/folder/", "relative", "localhost", "localhost/", "/c:",
                           "/c:/", "c:/folder/", "machine/share", "machine/share/", "machine//meet",
                           "////machine/share", "/////share/meet", "\\\\machine"}) {
    EXPECT_EQ(parse_file_url(rest).kind, form::none) << rest;
    EXPECT_EQ(file_url_problem(parse_file_url(rest)), "there is no absolute path of a file");
  }
}

TEST(file_url, reports_what_is_wrong_with_those_of_windows) {
  EXPECT_EQ(file_url_problem(parse_file_url("/tmp/meet")), "");
  const auto drive = file_url_problem(parse_file_url("/c:/tmp/meet"));
  EXPECT_NE(drive.find("/tmp/meet on drive c: of Windows"), std::string::npos) << drive;
  const auto share = file_url_problem(parse_file_url("////box/data/meet"));
  EXPECT_NE(share.find("/meet in share 'data' of machine 'box'"), std::string::npos) << share;
  EXPECT_NE(share.find("mount the share"), std::string::npos) << share;
}

}  // namespace
}  // namespace troupe::transport
