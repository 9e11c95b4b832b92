#include "agent/doors/mcp/version.h"

#include <string.h>

static const char *const names[MCP_VERSIONS] = {"2024-11-05", "2025-03-26", "2025-06-18",
                                                "2025-11-25", "2026-07-28"};

const char *mcp_version_name(enum mcp_version version) {
  return names[version];
}

static bool find_version(const char *name, size_t length, enum mcp_version *out) {
  for (unsigned i = 0; i < MCP_VERSIONS; i++)
    if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
      *out = (enum mcp_version)i;
      return true;
    }
  return false;
}

bool mcp_version_find(const char *name, enum mcp_version *out) {
  return find_version(name, strlen(name), out);
}

bool mcp_versions_have(unsigned set, enum mcp_version version) {
  return (set >> version & 1) != 0;
}

int mcp_versions_parse(const char *text, unsigned *set, struct error *error) {
  unsigned found = 0;
  for (;;) {
    size_t length = strcspn(text, ",");
    enum mcp_version version;
    if (!find_version(text, length, &version))
      return error_set(
          error, "expected versions of MCP (%s, %s, %s, %s, %s) and commas, got '%.*s'", names[0],
          names[1], names[2], names[3], names[4], (int)(length < 40 ? length : 40), text);
    found |= 1U << version;
    if (text[length] == '\0')
      break;
    text += length + 1;
  }
  *set = found;
  return 0;
}

bool mcp_versions_legacy(unsigned set, enum mcp_version *out) {
  for (unsigned i = MCP_MODERN; i-- > 0;)
    if (mcp_versions_have(set, (enum mcp_version)i)) {
      *out = (enum mcp_version)i;
      return true;
    }
  return false;
}
