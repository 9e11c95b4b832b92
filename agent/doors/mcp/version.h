#ifndef AGENT_DOORS_MCP_VERSION_H
#define AGENT_DOORS_MCP_VERSION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * The revisions of the Model Context Protocol that are served. Those before MCP_MODERN are
 * "legacy": initialize negotiates one. MCP_MODERN has no session: each request names its version.
 */
enum mcp_version {
  MCP_2024_11_05,
  MCP_2025_03_26, /* + annotations of tools, messages of progress, batches */
  MCP_2025_06_18, /* + titles of tools, structured results; no batches */
  MCP_2025_11_25,
  MCP_2026_07_28, /* no initialize */
  MCP_VERSIONS
};

#define MCP_MODERN MCP_2026_07_28

const char *mcp_version_name(enum mcp_version version);
bool mcp_version_find(const char *name, enum mcp_version *out);

/* Sets of versions: bit 1 << version. */
#define MCP_VERSIONS_ALL ((1U << MCP_VERSIONS) - 1)

bool mcp_versions_have(unsigned set, enum mcp_version version);

/* "VERSION[,VERSION]…" Returns -1 when one is not known. */
int mcp_versions_parse(const char *text, unsigned *set, struct error *error);

/* The newest of the set that initialize negotiates; false: there is none. */
bool mcp_versions_legacy(unsigned set, enum mcp_version *out);

#endif
