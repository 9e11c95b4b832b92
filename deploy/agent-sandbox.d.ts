// The fields of kubernetes-sigs/agent-sandbox that deploy/check.mjs accepts, as in version 0.5.6.
import type { INetworkPolicyEgressRule } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicyEgressRule";
import type { INetworkPolicyIngressRule } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicyIngressRule";
import type { IPodSpec } from "kubernetes-models/v1/PodSpec";

interface Kind<Name, Spec> {
  apiVersion: "extensions.agents.x-k8s.io/v1beta1";
  kind: Name;
  metadata: { name: string; labels?: Record<string, string> };
  spec: Spec;
}

interface PodMetadata {
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
}

export type ISandboxTemplate = Kind<"SandboxTemplate", {
  podTemplate: { metadata?: PodMetadata; spec: IPodSpec };
  service?: boolean;
  networkPolicy?: { ingress?: INetworkPolicyIngressRule[]; egress?: INetworkPolicyEgressRule[] };
  networkPolicyManagement?: "Managed" | "Unmanaged";
  envVarsInjectionPolicy?: "Allowed" | "Overrides" | "Disallowed";
}>;

export type ISandboxWarmPool = Kind<"SandboxWarmPool", {
  replicas?: number;
  sandboxTemplateRef: { name: string };
  updateStrategy?: { type?: "Recreate" | "OnReplenish" };
}>;

export type ISandboxClaim = Kind<"SandboxClaim", {
  warmPoolRef: { name: string };
  lifecycle?: {
    shutdownTime?: string;
    ttlSecondsAfterFinished?: number;
    shutdownPolicy?: "Delete" | "DeleteForeground" | "Retain";
  };
  additionalPodMetadata?: PodMetadata;
  env?: { name: string; value: string; containerName?: string }[];
}>;
