//! What a program needs of its host: the operator, its webhook, the node agent, and `weaver` on laptops.
//!
//! - [`backoff`]: how long to wait before something is tried again.
//! - [`docker`]: the container engine, and the clusters of k3d in it.
//! - [`durable_file`]: files that are replaced whole; [`file_lock`]: one process at a time.
//! - [`examples`]: below the help of each command.
//! - [`log`]: to the journal with fields, or to standard error; [`log_code`]: the code of each record.
//! - [`http_server`]: a port with limits for its clients; [`metrics_page`]: one that serves metrics.
//! - [`image_archive`]: for which processor the images of an archive are.
//! - [`page_style`]: how the pages look that a browser shows.
//! - [`open_files`]: how many of them a process may have, which its connections count among.
//! - [`handshake`]: one TLS handshake as a client, verified; [`key_pair`]: a certificate and its key, from one file.
//! - [`platform`]: what differs between Linux, macOS and Windows.
//! - [`progress`]: on a terminal, how far long work is.
//! - [`service_manager`]: tells systemd that the program is ready, and alive; [`signals`]: what ends it.
//! - [`table`]: columns of text under each other.
//! - [`tar_headers`]: a limit for the headers of an archive of someone else.
//!
//! What only a daemon needs is left out on Windows, where `weaver` alone runs.

pub mod backoff;
pub mod docker;
pub mod durable_file;
pub mod examples;
pub mod file_lock;
pub mod handshake;
pub mod http_server;
pub mod image_archive;
pub mod key_pair;
#[cfg(unix)]
pub mod log;
pub mod log_code;
pub mod metrics_page;
#[cfg(unix)]
pub mod open_files;
pub mod page_style;
pub mod platform;
pub mod progress;
#[cfg(unix)]
pub mod service_manager;
#[cfg(unix)]
pub mod signals;
pub mod table;
pub mod tar_headers;
