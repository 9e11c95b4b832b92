#include "agent/doors/mcp/version.h"

#include "tests/test.h"

static unsigned parsed(const char *text) {
  struct error error;
  unsigned set = 0;
  assert_int_equal(mcp_versions_parse(text, &set, &error), 0);
  return set;
}

TEST(versions_have_names) {
  for (unsigned i = 0; i < MCP_VERSIONS; i++) {
    enum mcp_version version;
    assert_true(mcp_version_find(mcp_version_name((enum mcp_version)i), &version));
    assert_int_equal(version, i);
  }
  enum mcp_version version;
  assert_false(mcp_version_find("2024-10-07", &version));
  assert_false(mcp_version_find("", &version));
}

TEST(a_list_is_a_set) {
  assert_int_equal(parsed("2026-07-28"), 1U << MCP_2026_07_28);
  assert_int_equal(parsed("2025-11-25,2024-11-05"), 1U << MCP_2025_11_25 | 1U << MCP_2024_11_05);
  assert_int_equal(parsed("2024-11-05,2025-03-26,2025-06-18,2025-11-25,2026-07-28"),
                   MCP_VERSIONS_ALL);
}

TEST(an_unknown_version_is_an_error_that_names_the_known_ones) {
  static const char *const texts[] = {"", "2025", "2025-11-25,", ",2025-11-25", "2025-11-25 "};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct error error;
    unsigned set = 7;
    assert_int_equal(mcp_versions_parse(texts[i], &set, &error), -1);
    assert_int_equal(set, 7);
    assert_non_null(strstr(error.text, "2024-11-05"));
    assert_non_null(strstr(error.text, "2026-07-28"));
  }
}

TEST(the_newest_legacy_version_is_found) {
  enum mcp_version version;
  assert_true(mcp_versions_legacy(MCP_VERSIONS_ALL, &version));
  assert_int_equal(version, MCP_2025_11_25);
  assert_true(mcp_versions_legacy(parsed("2026-07-28,2025-03-26,2024-11-05"), &version));
  assert_int_equal(version, MCP_2025_03_26);
  assert_false(mcp_versions_legacy(parsed("2026-07-28"), &version));
}
