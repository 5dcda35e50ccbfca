package hdfs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
)

const (
	// packedKeytab stands for the path of a keytab that came along with this
	// process.
	packedKeytab = "hadoop-credentials:" + keytabSecret

	keytabSecret = "sawlog.keytab"    // the principal's keys as a keytab, base64
	krb5Secret   = "sawlog.krb5.conf" // the file that $KRB5_CONFIG named, with those it includes
)

// pack takes the keys of the principal, and of no other the keytab may hold. The
// KDC is named by the nodes' own /etc/krb5.conf, unless this process was told of
// another file.
func (l *login) pack() (name string, secrets map[string]string, err error) {
	if l.keytab == "" {
		return "", nil, &loginError{l, l.expires(), true, errors.New("tickets of kinit can't be sent to other machines, a keytab can: give keytab: and principal: in the job")}
	}
	all, err := l.keys()
	if err != nil {
		return "", nil, &loginError{l, l.expires(), true, err}
	}
	own := keytab.New()
	for _, e := range all.Entries {
		if e.Principal.String() == l.principal {
			own.Entries = append(own.Entries, e)
		}
	}
	if len(own.Entries) == 0 {
		return "", nil, &loginError{l, l.expires(), true, fmt.Errorf("%s holds no keys of %s any more", l.keytab, l.principal)}
	}
	keys, err := own.Marshal()
	if err != nil {
		return "", nil, &loginError{l, l.expires(), true, err}
	}
	secrets = map[string]string{keytabSecret: base64.StdEncoding.EncodeToString(keys)}
	if l.env("KRB5_CONFIG") != "" {
		_, text, err := krb5File(l.env)
		if err != nil {
			return "", nil, err
		}
		secrets[krb5Secret] = text
	}
	return packedKeytab, secrets, nil
}

// keys are those of the keytab, as it is now.
func (l *login) keys() (*keytab.Keytab, error) {
	if l.keytab != packedKeytab {
		return keytab.Load(l.keytab)
	}
	secrets, err := l.secrets()
	if err != nil {
		return nil, err
	}
	text, ok := secrets[keytabSecret]
	if !ok {
		return nil, fmt.Errorf("the application's credentials hold no %s", keytabSecret)
	}
	data, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keytabSecret, err)
	}
	keys := keytab.New()
	return keys, keys.Unmarshal(data)
}

// readConfig reads Kerberos' own configuration: that which came along with the
// keytab, or this machine's.
func (l *login) readConfig() (*config.Config, error) {
	if l.keytab == packedKeytab {
		secrets, err := l.secrets()
		if err != nil {
			return nil, err
		}
		if text, ok := secrets[krb5Secret]; ok {
			return parseKrb5(krb5Secret, string(text))
		}
	}
	return readKrb5(l.env)
}

// secrets are those of the application this process is a container of.
func (l *login) secrets() (map[string][]byte, error) {
	path := l.env("HADOOP_TOKEN_FILE_LOCATION")
	if path == "" {
		return nil, errors.New("the keytab goes along with an application of Hadoop, and this is no container of one: $HADOOP_TOKEN_FILE_LOCATION is not set")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	secrets, err := parseCredentials(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return secrets, nil
}
