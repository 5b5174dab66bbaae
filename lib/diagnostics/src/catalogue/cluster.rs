//! What runs in the cluster: registries and images, kinds, accounts, leases.

use super::Entry;
use super::table::{ADMISSION, K3S_REGISTRIES, K3S_REQUIREMENTS, RBAC, RESTART_K3S, known};
use crate::finding::Severity::{Fail, Ok, Unknown, Warn};

pub(super) const KINDS_OK: Entry =
    known(Ok, "Each definition is there, and an object was converted.", "", &[], &[]);

pub(super) const DEFINITION_DIFFERS: Entry = known(
    Fail,
    "They were never installed, are of another version, or somebody has changed them; the agent puts them back.",
    "see the difference, and whether the agent runs",
    &["weaver crd diff", "systemctl status weaver-node-agent"],
    &[],
);

pub(super) const SYNC_NOT_READY: Entry = known(
    Warn,
    "A right is missing, the source or an account is not there, or somebody else's object is in the way: its conditions \
     say which.",
    "see what it says, and follow that",
    &["weaver sync explain NAME -n NAMESPACE", "kubectl describe servicetoken NAME -n NAMESPACE"],
    &[],
);

pub(super) const NOBODY_ACTS: Entry = known(
    Fail,
    "The operator does not run, or cannot reach the API server: what was changed has not been looked at.",
    "start it again; where the agent has not started it yet, its report says why",
    &["sudo systemctl restart weaver-operator", "cat /boot/firmware/NODE-STATUS.txt"],
    &[],
);

pub(super) const MINTING_TOO_WIDE: Entry = known(
    Warn,
    "Somebody has bound the right on serviceaccounts/token for the whole cluster: whoever may write a ConfigMapSync \
     may then act as any account of that namespace that they may name.",
    "bind it for single accounts, as `weaver tenant allow` does, and remove the wide binding",
    &[
        "kubectl get clusterrolebindings -o wide | grep weaver-operator",
        "kubectl delete clusterrolebinding NAME",
        "weaver tenant allow NAMESPACE ACCOUNT",
    ],
    &[RBAC],
);

pub(super) const ACCOUNT_POLICY_MISSING: Entry = known(
    Warn,
    "Somebody has deleted it, or nobody has installed it: whoever may write a ConfigMapSync or a ServiceToken can have \
     the operator act as any account of that namespace that it may mint tokens for.",
    "install it; the agent does that by itself within a minute where it runs",
    &["sudo weaver crd install", "systemctl status weaver-node-agent"],
    &[ADMISSION],
);

pub(super) const ACCOUNT_POLICY_CHANGED: Entry = known(
    Warn,
    "Its binding is the owner's to change, and stays as it is; rules of another version stay until that version's \
     installer has run. Who is let through can have the operator act as any account of the namespace that it may mint \
     tokens for.",
    "if nobody means it so, delete the binding and install; `weaver crd install` makes both as they were",
    &["kubectl delete validatingadmissionpolicybinding weaver-accounts", "sudo weaver crd install"],
    &[ADMISSION],
);

pub(super) const NODE_POLICY_NOT_IN_FORCE: Entry = known(
    Warn,
    "Policy or binding is not there, or is turned off, or of another version: a node that somebody has broken into can \
     write the NodeReports of the others.",
    "if nobody means it so, delete the binding and install; `weaver crd install` makes both as they were",
    &[
        "kubectl delete validatingadmissionpolicybinding weaver-node-reports --ignore-not-found",
        "sudo weaver crd install",
    ],
    &[ADMISSION],
);

pub(super) const DELETION_POLICY_NOT_IN_FORCE: Entry = known(
    Warn,
    "Policy or binding `weaver-deletions` is not there, or is turned off. Nothing then refuses `kubectl delete \
     --cascade=orphan` of a ConfigMapSync, which deletes its copies.",
    "unless that is intended, delete the binding and install; `weaver crd install` creates both again. Until then keep \
     copies with `weaver sync delete NAME --orphan`",
    &[
        "kubectl delete validatingadmissionpolicybinding weaver-deletions --ignore-not-found",
        "sudo weaver crd install",
    ],
    &[ADMISSION],
);

pub(super) const NODE_REPORT_NOT_SHOWN: Entry = known(
    Warn,
    "The node's agent is of another version, or another program writes the report with the node's certificate.",
    "use the `weaver` of the version that the node runs; check the node itself before you believe the report",
    &["kubectl get nodereports", "sudo weaver-node-agent check"],
    &[],
);

pub(super) const MAY_NOT_LOOK: Entry = known(
    Unknown,
    "The account of the kubeconfig has not the right to look there.",
    "look with an administrator's kubeconfig",
    &[],
    &[RBAC],
);

pub(super) const REGISTRY_PLAIN_HTTP: Entry = known(
    Fail,
    "containerd and skopeo ask a registry by HTTPS unless told otherwise. The last error shown may be that of the \
     default HTTPS endpoint, and not of the one configured.",
    "name the registry with `http://` in /etc/rancher/k3s/registries.yaml and restart k3s; for skopeo: \
     `--dest-tls-verify=false`",
    &["weaver registry config REGISTRY:PORT --http | sudo tee /etc/rancher/k3s/registries.yaml", RESTART_K3S],
    &[K3S_REGISTRIES],
);

pub(super) const IMAGE_WITHOUT_REGISTRY: Entry = known(
    Fail,
    "Without a dot or a colon in its first part, an image is one of docker.io.",
    "write the registry in front: REGISTRY:PORT/IMAGE",
    &[],
    &[K3S_REGISTRIES],
);

pub(super) const REGISTRY_NOT_A_SERVICE: Entry = known(
    Warn,
    "A registry of k3d is a container on the Docker network beside the cluster.",
    "inside the cluster it is REGISTRY:5000, on your machine localhost with the port that Docker gave it",
    &["k3d registry list", "docker ps --filter label=k3d.role=registry"],
    &[],
);

pub(super) const INGRESS_ANNOTATION_IGNORED: Entry = known(
    Warn,
    "k3s brings Traefik, and the annotation is one of another controller or of Traefik's first version. Nothing says so.",
    "write what Traefik has for it: mostly a Middleware, named in `traefik.ingress.kubernetes.io/router.middlewares`",
    &["kubectl get ingress -A -o yaml | weaver ingress lint"],
    &["https://doc.traefik.io/traefik/reference/routing-configuration/kubernetes/ingress/"],
);

pub(super) const SCOPE_IMMUTABLE: Entry = known(
    Fail,
    "A definition is Namespaced or Cluster for ever; the new one is the other.",
    "compare first; deleting the definition deletes each of its objects, and a running operator deletes their copies with \
     them: copy what you need before",
    &["weaver crd diff"],
    &[],
);

pub(super) const TOKEN_REQUEST_NOT_A_KIND: Entry = known(
    Fail,
    "It is a subresource of ServiceAccounts, and is not applied.",
    "ask for a token",
    &["kubectl create token ACCOUNT -n NAMESPACE"],
    &[],
);

pub(super) const CONVERSION_WEBHOOK_FAILED: Entry = known(
    Fail,
    "It does not run, or its certificate is not of the CA in the definition. Objects stored at another version can \
     be neither read nor written meanwhile.",
    "start it; then install the definitions again, which also mends the CA",
    &["sudo systemctl restart weaver-webhook", "sudo systemctl restart weaver-node-agent"],
    &[],
);

pub(super) const FINALIZER_WAITS: Entry = known(
    Warn,
    "The operator is not running, or its account's rights are gone, so it cannot tidy up.",
    "start the operator; it lets go by itself when nothing can be done any more, and says what it left behind",
    &["systemctl status weaver-operator", "weaver orphans list"],
    &[],
);

pub(super) const CASCADE_ORPHAN_DELETES: Entry = known(
    Warn,
    "`--cascade orphan` reads `orphan` as a second name: the first object was deleted with what belongs to it. \
     `--cascade=orphan` does not keep copies either: the API server forgets it before the operator acts.",
    "to keep the copies of a ConfigMapSync, delete it with `--orphan`, or set `spec.deletionPolicy: Orphan` before you \
     delete it; to get deleted copies back, apply the ConfigMapSync again",
    &["weaver sync delete NAME -n NAMESPACE --orphan", "weaver orphans list -n NAMESPACE"],
    &[],
);

pub(super) const OWNER_IN_OTHER_NAMESPACE: Entry = known(
    Fail,
    "An owner reference is looked up in the object's own namespace; from elsewhere the object counts as ownerless \
     and is deleted.",
    "remove the reference; Config Weaver marks its copies by a label instead",
    &[],
    &["https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/"],
);

pub(super) const MINTING_FORBIDDEN: Entry = known(
    Fail,
    "Nobody has allowed it: the right is given for one account at a time.",
    "allow it; in a Role of your own: `create` on `serviceaccounts/token` in API group \"\", the core group",
    &["weaver tenant allow NAMESPACE ACCOUNT"],
    &[RBAC],
);

pub(super) const RIGHT_MISSING: Entry = known(
    Fail,
    "No Role that is bound to the account has it.",
    "grant it in the namespace where it is wanted",
    &["weaver tenant check NAMESPACE ACCOUNT"],
    &[RBAC],
);

pub(super) const TOKEN_TOO_SHORT: Entry = known(
    Fail,
    "The API server mints none for less than ten minutes.",
    "ask for 600 seconds or more",
    &[],
    &[],
);

pub(super) const LEASE_LOST: Entry = known(
    Warn,
    "The database on the card did not answer in time: k3s needs writes that end within 10 ms, and many cards do not \
     keep that under load.",
    "use an SSD, or a card of class A2; take other writers off the card",
    &["weaver explain --journal k3s"],
    &["https://github.com/k3s-io/k3s/issues/2615", K3S_REQUIREMENTS],
);
