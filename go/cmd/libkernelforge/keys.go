package main

// keys.go owns making Ed25519 keys and signing with them, for packs. A private key comes in with the call and is kept nowhere; checking a
// signature is Python's, since whoever applies a pack has no core.

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"

	"github.com/kernelforge/kernelforge/go/card"
)

// makeKey makes a key pair, in the forms that openssl reads: PKCS #8 and PKIX in PEM.
func makeKey(struct{}) (any, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, card.Fail(card.CodeInternal, "", "make a key: %w", err)
	}
	own, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, card.Fail(card.CodeInternal, "", "make a key: %w", err)
	}
	theirs, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, card.Fail(card.CodeInternal, "", "make a key: %w", err)
	}
	return map[string]string{
		"private": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: own})),
		"public":  string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: theirs})),
		"key":     hex.EncodeToString(public),
	}, nil
}

type signRequest struct {
	Key     string `json:"key"`     // PEM of a private key
	Message string `json:"message"` // hexadecimal
}

func sign(request signRequest) (any, error) {
	const hint = "`kernelforge keygen FILE` makes one"
	block, _ := pem.Decode([]byte(request.Key))
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, card.Fail(card.CodeRequest, hint, "sign: the key is no private key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, card.Fail(card.CodeRequest, hint, "sign: the private key cannot be read") // the parser's words could quote it
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, card.Fail(card.CodeRequest, hint, "sign: the private key is a %T (expected an Ed25519 key)", parsed)
	}
	message, err := hex.DecodeString(request.Message)
	if err != nil {
		return nil, card.Fail(card.CodeRequest, "", "sign: `message` is not hexadecimal: %w", err)
	}
	return map[string]string{
		"key":       hex.EncodeToString(private.Public().(ed25519.PublicKey)),
		"signature": hex.EncodeToString(ed25519.Sign(private, message)),
	}, nil
}
