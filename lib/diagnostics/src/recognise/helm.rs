//! What helm says of a release that it does not change.

use super::details::{Details, has_any};
use crate::finding::Remedy;

/// Helm was ended while it worked, and the record says that it still does.
pub(super) fn pending(_: &str) -> Details {
    Details::message("a helm release is recorded as being installed, upgraded or rolled back")
}

/// Its first installation failed, or the state of its revisions was lost.
pub(super) fn not_deployed(_: &str) -> Details {
    Details::message("helm has no revision of this release on record as deployed, so there is nothing to upgrade")
        .advice(
            "look at its history. If an earlier revision ran, go back to it; only if revision 1 is the only one and has failed, \
             uninstall the release, which deletes all that belongs to it, and install it again",
        )
        .command("helm history RELEASE -n NAMESPACE")
        .command("helm rollback RELEASE REVISION -n NAMESPACE")
}

/// The job of k3s that installs a chart, after a failure.
pub(super) fn aborted(_: &str) -> Details {
    Details::message("a HelmChart of k3s has failed, and is not tried again: its `failurePolicy` is abort")
        .advice(
            "the log of the job before says what failed: correct it, then have helm go back or remove the release; the job \
             runs again by itself",
        )
        .command("kubectl get helmcharts -A")
        .command("helm history RELEASE -n NAMESPACE")
        .command("helm rollback RELEASE REVISION -n NAMESPACE")
}

/// An object that was made without helm, or by another release. k3s#6869
pub(super) fn not_its_own(_: &str) -> Details {
    Details::message("helm does not take over an object that it did not make")
        .advice(
            "see what made it, and remove it there. If it is to belong to this release, give it the label and the annotations that \
             helm looks for, with the names that the line has",
        )
        .command("kubectl label KIND NAME -n NAMESPACE app.kubernetes.io/managed-by=Helm")
        .command(
            "kubectl annotate KIND NAME -n NAMESPACE meta.helm.sh/release-name=RELEASE meta.helm.sh/release-namespace=NAMESPACE",
        )
}

/// The job of k3s that installs a chart, where another one has begun in between. k3s#14283
pub(super) fn other_revision(_: &str) -> Details {
    Details::message("a job of k3s leaves a helm release alone, because its revision is not the one that it knows")
        .advice(
            "if the release stays `pending`, an earlier job was ended while it worked: go back to the last deployed revision, and \
             the job runs again",
        )
        .command("helm history RELEASE -n NAMESPACE")
        .command("helm rollback RELEASE REVISION -n NAMESPACE")
        .command("kubectl -n kube-system get helmcharts,jobs")
}

/// helm or Flux' controller, which waited for pods, and Flux after its last try. helm#3980, flux2#3446
pub(super) fn not_in_time(line: &str) -> Option<Details> {
    let gave_up = has_any(line, &["install retries exhausted", "upgrade retries exhausted"]);
    // Not of a hook, whose job says why.
    let is_late = ["UPGRADE FAILED", "INSTALLATION FAILED", "elm install failed", "elm upgrade failed"]
        .iter()
        .any(|what| line.contains(&format!("{what}: timed out")));
    if !gave_up && !is_late {
        return None;
    }
    let details = Details::message(if gave_up {
        "Flux no longer tries to install or upgrade a helm release: an event of its HelmRelease says what failed"
    } else {
        "what helm installed was not ready in time, and the revision is on record as failed"
    });
    Some(
        details
            .advice(
                "see which pods are not Ready, or which Service waits for an address, and why; a longer `--timeout` helps only \
                 where the board is slow. Then upgrade again, with Flux by the last command",
            )
            .command("kubectl -n NAMESPACE get pods,services,pvc")
            .command("kubectl -n NAMESPACE get events --sort-by=.lastTimestamp | tail -n 20")
            .command("helm history RELEASE -n NAMESPACE")
            .command("flux reconcile helmrelease RELEASE -n NAMESPACE --reset"),
    )
}

pub(super) fn name_in_use(_: &str) -> Details {
    Details::message("a helm release of this name exists in the namespace")
        .advice(
            "upgrade it, or take another name; one whose first installation failed is removed by `helm uninstall`",
        )
        .command("helm history RELEASE -n NAMESPACE")
        .command("helm upgrade --install RELEASE CHART -n NAMESPACE")
}

/// helm pulls charts from registries as well, with credentials of its own.
pub(super) fn chart_refused(line: &str) -> Option<Details> {
    let is_of_a_chart =
        has_any(line, &["oci://", "INSTALLATION FAILED", "UPGRADE FAILED", "failed to pull helm chart"]);
    is_of_a_chart.then(|| {
        Details::message("the registry refuses access to the chart").remedy(
            Remedy::new(
                "check the name and the version of the chart. For a private one log in on the machine that runs helm, which reads \
                 neither imagePullSecrets nor registries.yaml; a HelmChart of k3s, Flux and Argo CD name a Secret instead",
            )
            // Who logs in sends a password there: not to a host that a line names.
            .command("helm registry login REGISTRY"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_refused_to_helm_and_not_to_k3s() {
        for line in [
            r#"Error: INSTALLATION FAILED: failed to download "oci://ghcr.io/x/y": 403 Forbidden"#,
            r#"Error: UPGRADE FAILED: failed to download "oci://reg.lan:5000/x/y": 401 Unauthorized"#,
            "Error: failed to pull helm chart: 401 Unauthorized",
            r#"failed to download "oci://$(reboot)/x": 403 Forbidden"#,
        ] {
            let commands = chart_refused(line).unwrap().remedy.unwrap().commands;
            assert_eq!(commands[0].to_string(), "helm registry login REGISTRY", "{line}");
        }
        assert_eq!(chart_refused(r#"Failed to pull image "ghcr.io/x/y:1": 403 Forbidden"#), None);
    }
}
