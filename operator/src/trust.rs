//! What the API server is known by, and its replacement.
//!
//! The address and the CA are read once; of the token, kube reads the file again by itself. When they stand otherwise
//! in the file (the node agent has written a new CA there, or the kubelet has), a process that keeps the old ones
//! fails at its next connection; so the operator logs the reason and exits, and its successor starts with the new
//! ones.
//!
//! Looked at are the file that was named and, in a pod, the CA that is mounted; not what a user's shell names
//! (`KUBECONFIG`), which changes for other reasons. A file that cannot be read, or is gone, is no replacement.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

const LOOK: Duration = Duration::from_secs(10);

/// Where a pod finds the CA.
const IN_A_POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// The file has other words by now.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0} names another API server or CA: restarting")]
pub struct Replaced(String);

pub struct TrustFile {
    path: PathBuf,
    text: Option<Vec<u8>>,
}

impl TrustFile {
    /// Reads it; before it is used, so that no replacement is missed.
    pub fn read(kubeconfig: Option<&Path>) -> Self {
        let path = kubeconfig.unwrap_or(Path::new(IN_A_POD)).to_owned();
        Self { text: std::fs::read(&path).ok(), path }
    }

    /// Ends when something else is there.
    pub async fn replaced(&self) -> Replaced {
        loop {
            sleep(LOOK).await;
            if let (Some(before), Ok(now)) = (&self.text, std::fs::read(&self.path))
                && *before != now
            {
                return Replaced(self.path.display().to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_written_again_gone_or_back_is_the_same_and_another_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("operator.kubeconfig");
        std::fs::write(&path, "one").unwrap();
        let trust = TrustFile::read(Some(&path));
        let mut replaced = std::pin::pin!(trust.replaced());
        std::fs::write(&path, "one").unwrap();
        assert!(timeout(LOOK * 2, &mut replaced).await.is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(timeout(LOOK * 2, &mut replaced).await.is_err());
        std::fs::write(&path, "two").unwrap();
        let message = timeout(LOOK * 2, replaced).await.unwrap().to_string();
        assert!(message.contains("operator.kubeconfig names another API server or CA"), "{message}");
        // What was not there has nothing to be compared with.
        let absent = TrustFile::read(Some(&dir.path().join("absent")));
        std::fs::write(dir.path().join("absent"), "new").unwrap();
        assert!(timeout(LOOK * 2, absent.replaced()).await.is_err());
    }
}
