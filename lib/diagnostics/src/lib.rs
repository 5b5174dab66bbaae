//! Facts in, findings out.
//!
//! Everything the node agent (and later the user's tool) judges is decided
//! here, from plain values: no file is read, no connection is made, no clock
//! is asked. Each module takes what a reader collected and returns findings
//! with a stable code, a severity, evidence and a remedy.
//!
//! Guarantees: no input makes these functions panic; what cannot be judged is
//! `unknown`, never `fail`; of the files of k3s and of kubeconfigs, where the
//! tokens are, a finding repeats nothing but names, ports, paths and the
//! contexts judged. Of a kernel command line it shows whole lines, as a diff.

pub mod announcement;
pub mod catalogue;
pub mod cmdline_repair;
pub mod config_txt;
pub mod containerd_template;
pub mod data_disk;
pub mod exit_code;
pub mod finding;
pub mod finding_text;
pub mod future_ca;
pub mod host;
pub mod image_archive;
pub mod ingress;
pub mod join;
pub mod k3d;
pub mod k3s_config;
pub mod k3s_unit;
pub mod k3s_upgrade;
pub mod kept_cmdline;
pub mod kernel_cmdline;
pub mod kernel_trial;
pub mod kubeconfig;
pub mod kubeconfig_export;
pub mod kubelet_config;
pub mod kubelet_flags;
pub mod laptop;
pub mod memory_cgroup;
pub mod name_repair;
pub mod next_boot;
pub mod node_backup;
pub mod overrides;
pub mod package_update;
pub mod power;
pub mod reach;
pub mod recognise;
pub mod registries_yaml;
pub mod registry;
pub mod reported_findings;
pub mod san;
pub mod serving;
pub mod shell;
pub mod text_file;
pub mod tokens;
pub mod version_gap;
pub mod weaver_toml;
pub mod when;
pub mod yaml_node;
pub mod yaml_text;
