//! Which API server runs in a stack.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::choice::ServerBinary;
use crate::files;
use crate::kubectl::Kubectl;
use crate::layout::Layout;

/// The API server that runs in a stack.
#[derive(Debug, Serialize, Deserialize)]
pub struct ServerRecord {
    /// Its port on 127.0.0.1.
    pub port: u16,
    pub binary: ServerBinary,
}

impl ServerRecord {
    /// The record of a stack. A corrupt one counts as none: the server is then started again.
    ///
    /// # Errors
    /// When it is there and cannot be read at all.
    pub fn read(layout: &Layout) -> Result<Option<Self>> {
        Ok(files::read_if_there(&layout.server_record())?.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Writes it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, layout: &Layout) -> Result<()> {
        files::replace(&layout.server_record(), &serde_json::to_vec(self)?, 0o644)
    }

    /// The program that should run instead of this one's. Without `K3S_BIN` what runs is good:
    /// choosing again might download or build.
    pub fn replaced_by<'a>(&self, given: Option<&'a ServerBinary>) -> Option<&'a Path> {
        given.map(|given| given.path.as_path()).filter(|path| *path != self.binary.path)
    }

    /// kubectl for this server.
    pub fn kubectl(&self, layout: &Layout) -> Kubectl {
        Kubectl::new(&self.binary.path, &layout.admin_kubeconfig())
    }
}
