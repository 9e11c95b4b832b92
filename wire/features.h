#pragma once

/*
 * What an agent announces in its heartbeat, so that servers and clients know which fields they may
 * send. The agent writes it, and `sandbox doctor` compares it.
 */

/* The lowest and the highest schemaVersion of the steps that the agent accepts. */
#define PROTOCOL_VERSIONS "1-2"

/* What a server may use beyond the first version of the protocol, ended by NULL. An agent ignores
   fields that it does not know, so a server checks this list first. */
extern const char *const protocol_features[];

/* The features of wire/policy.h. A client checks them first, because an agent that ignored these
   fields would run the step without them. */
#define FEATURE_FENCE "fence"
#define FEATURE_LIMITS "limits"

/* The features that depend on Redis; see PROTOCOL.md. A frontend may leave them out. */
#define FEATURE_CONTROL "control"
#define FEATURE_REPLY_TO "replyTo"
#define FEATURE_FLOW_CONTROL "flowControl"
