//! Facts in, findings out.
//!
//! What the node agent and `weaver` judge is decided here, from plain values: no file is read, no connection is made, no
//! clock is asked. Each module takes what a reader collected and returns findings with a stable code, a severity,
//! evidence and a remedy.
//!
//! | modules | about |
//! |---|---|
//! | [`catalogue`], [`finding`], [`finding_text`], [`reported_findings`], [`overrides`], [`exit_code`] | findings: the row of each code, what one says, how it is shown, read and overridden |
//! | [`recognise`], [`tokens`] | what other programs print: which code it is, and which secrets are removed from it |
//! | [`host`], [`power`] | checks of the host before k3s starts |
//! | [`hidden`] | what our units do not see of the host |
//! | [`memory_cgroup`], [`kernel_cmdline`], [`cmdline_repair`], [`kept_cmdline`] | the memory controller and its parameter: what a line says, what is wrong, how it is repaired |
//! | [`next_boot`], [`config_txt`] | which command line the next boot takes |
//! | [`k3s_config`], [`k3s_unit`], [`kubelet_config`], [`kubelet_flags`], [`containerd_template`], [`registries_yaml`] | the files and flags by which k3s and its parts run |
//! | [`serving`], [`san`], [`name_repair`], [`future_ca`] | the names in the API server's certificate, and its dates |
//! | [`kubeconfig`], [`kubeconfig_export`] | whether a kubeconfig can be used; making one for another machine |
//! | [`reach`], [`laptop`] | the path from a user's machine to the API server |
//! | [`join`], [`k3d`], [`registry`], [`ingress`], [`image_archive`] | a node that joins, clusters of k3d, a registry of one's own, an Ingress, archives of images |
//! | [`weaver_toml`] | the settings of the card: faults, and the plan for the host |
//! | [`k3s_upgrade`], [`package_update`], [`kernel_trial`], [`node_backup`], [`data_disk`], [`when`] | plans and records of what the node agent changes over days: k3s, our packages, the kernel, backups, the disk |
//! | [`announcement`], [`version_gap`] | what a node says of itself; parts that are too old for each other |
//! | [`text_file`], [`shell`], [`yaml_node`], [`yaml_text`] | texts with their place |
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
pub mod hidden;
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
